//! Device types and ids: which device memory is on.
//!
//! Types and ids are open. An array of an unknown device type can still be imported, looked at and
//! handed on. So a device type is an integer with names for the known values, and not an `enum`.

mod parse;

use std::fmt;

/// The kind of device that can access an array's buffers.
///
/// The values are those of the Arrow C device interface, which are DLPack's too. Any other value is
/// carried unchanged.
///
/// ```
/// use arrow_device::DeviceType;
///
/// assert_eq!(DeviceType::CUDA.to_string(), "cuda");
/// assert_eq!("opencl".parse::<DeviceType>()?, DeviceType::OPENCL);
/// assert_eq!(DeviceType(4711).to_string(), "device_type(4711)");
/// # Ok::<(), arrow_device::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct DeviceType(pub i32);

impl DeviceType {
    /// Plain host memory.
    pub const CPU: Self = Self(1);
    /// Memory of a CUDA GPU.
    pub const CUDA: Self = Self(2);
    /// Host memory pinned by CUDA.
    pub const CUDA_HOST: Self = Self(3);
    /// Memory of an OpenCL device.
    pub const OPENCL: Self = Self(4);
    /// A Vulkan buffer.
    pub const VULKAN: Self = Self(7);
    /// A Metal buffer.
    pub const METAL: Self = Self(8);
    /// Memory inside a Verilog simulator.
    pub const VPI: Self = Self(9);
    /// Memory of a ROCm GPU.
    pub const ROCM: Self = Self(10);
    /// Host memory pinned by ROCm.
    pub const ROCM_HOST: Self = Self(11);
    /// An extension device; this project's software device uses it.
    pub const EXT_DEV: Self = Self(12);
    /// CUDA managed memory.
    pub const CUDA_MANAGED: Self = Self(13);
    /// Unified shared memory of a oneAPI device.
    pub const ONEAPI: Self = Self(14);
    /// A WebGPU buffer.
    pub const WEBGPU: Self = Self(15);
    /// Memory shared with a Hexagon DSP.
    pub const HEXAGON: Self = Self(16);
    /// A Microsoft MAIA device. DLPack has this type, and the Arrow specification does not yet.
    pub const MAIA: Self = Self(17);
    /// An AWS Trainium device. DLPack has this type, and the Arrow specification does not yet.
    pub const TRAINIUM: Self = Self(18);

    /// Every type with a name, in the order of the values.
    pub const KNOWN: &[(Self, &str)] = &[
        (Self::CPU, "cpu"),
        (Self::CUDA, "cuda"),
        (Self::CUDA_HOST, "cuda_host"),
        (Self::OPENCL, "opencl"),
        (Self::VULKAN, "vulkan"),
        (Self::METAL, "metal"),
        (Self::VPI, "vpi"),
        (Self::ROCM, "rocm"),
        (Self::ROCM_HOST, "rocm_host"),
        (Self::EXT_DEV, "ext_dev"),
        (Self::CUDA_MANAGED, "cuda_managed"),
        (Self::ONEAPI, "oneapi"),
        (Self::WEBGPU, "webgpu"),
        (Self::HEXAGON, "hexagon"),
        (Self::MAIA, "maia"),
        (Self::TRAINIUM, "trainium"),
    ];

    /// The short name, if the value is known.
    pub fn name(self) -> Option<&'static str> {
        Self::KNOWN.iter().find(|(known, _)| *known == self).map(|(_, name)| *name)
    }
}

impl From<i32> for DeviceType {
    fn from(value: i32) -> Self {
        Self(value)
    }
}

impl From<DeviceType> for i32 {
    fn from(device_type: DeviceType) -> Self {
        device_type.0
    }
}

impl fmt::Display for DeviceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "device_type({})", self.0),
        }
    }
}

impl fmt::Debug for DeviceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One device: its type, and a number among the devices of that type.
///
/// What the number counts differs from type to type: see the table in
/// [`convention`](crate::convention).
///
/// ```
/// use arrow_device::{DeviceId, DeviceType};
///
/// let second: DeviceId = "cuda:1".parse()?;
/// assert_eq!(second, DeviceId::new(DeviceType::CUDA, 1));
/// assert_eq!(DeviceId::CPU.to_string(), "cpu");
/// # Ok::<(), arrow_device::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId {
    /// The type.
    pub device_type: DeviceType,
    /// The number of the device among those of its type. All 64 bits are kept.
    pub id: i64,
}

impl DeviceId {
    /// Plain host memory, with the number that the specification recommends for it.
    pub const CPU: Self = Self::new(DeviceType::CPU, -1);

    /// A device by type and number.
    pub const fn new(device_type: DeviceType, id: i64) -> Self {
        Self { device_type, id }
    }

    /// Whether both ids name one device. All ids of plain host memory do, whatever their numbers.
    ///
    /// ```
    /// use arrow_device::{DeviceId, DeviceType};
    ///
    /// assert!(DeviceId::CPU.is_same_device(DeviceId::new(DeviceType::CPU, 0)));
    /// let second = DeviceId::new(DeviceType::CUDA, 1);
    /// assert!(!second.is_same_device(DeviceId::new(DeviceType::CUDA, 0)));
    /// ```
    pub fn is_same_device(self, other: Self) -> bool {
        self == other
            || (self.device_type == DeviceType::CPU && other.device_type == DeviceType::CPU)
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::CPU {
            return f.write_str("cpu");
        }
        write!(f, "{}:{}", self.device_type, self.id)
    }
}

impl fmt::Debug for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
