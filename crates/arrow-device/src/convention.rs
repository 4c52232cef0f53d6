//! What `buffers[i]`, `device_id` and `sync_event` mean on each type of device.
//!
//! The specification leaves much of this open, so two libraries that follow it can still
//! misunderstand each other. This library keeps to the convention below. Its C header has the same
//! table.
//!
//! ```
//! use arrow_device::{DeviceType, convention};
//!
//! let opencl = convention::of(DeviceType::OPENCL).unwrap();
//! assert_eq!(opencl.event, Some("cl_event"));
//! println!("{opencl}");
//! ```
#![doc = include_str!("convention.md")]

use std::fmt;

use crate::DeviceType;

/// How one type of device is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convention {
    /// The type.
    pub device_type: DeviceType,
    /// What `buffers[i]` holds.
    pub buffers: &'static str,
    /// What `device_id` counts.
    pub device_id: &'static str,
    /// What `sync_event` points to. `None` where it is always null.
    pub event: Option<&'static str>,
    /// How a consumer waits.
    pub waiting: &'static str,
    /// What producer and consumer have to share.
    pub shared: &'static str,
}

/// The convention of a type, if it is one of the specification's fourteen.
pub fn of(device_type: DeviceType) -> Option<&'static Convention> {
    ALL.iter().find(|convention| convention.device_type == device_type)
}

/// Whether an array on this type of device may come with an event. The answer is yes for unknown
/// types.
pub(crate) fn may_have_event(device_type: DeviceType) -> bool {
    of(device_type).is_none_or(|convention| convention.event.is_some())
}

/// Whether an array on this type of device may be ready in the order of its device's one queue. A
/// null event then does not say that the data is ready. The answer is yes for unknown types.
pub(crate) fn may_be_in_queue_order(device_type: DeviceType) -> bool {
    of(device_type).is_none()
        || matches!(device_type, DeviceType::METAL | DeviceType::WEBGPU | DeviceType::EXT_DEV)
}

/// Whether `sync_event` points to the same kind of event on both types of device, as on the kinds
/// of memory of one runtime. The answer is no for unknown types.
pub(crate) fn have_same_events(one: DeviceType, other: DeviceType) -> bool {
    let event = |device_type| of(device_type).and_then(|convention| convention.event);
    one == other || event(one).is_some_and(|this| event(other) == Some(this))
}

/// All fourteen, in the order of their values.
pub const ALL: &[Convention] = &[
    Convention {
        device_type: DeviceType::CPU,
        buffers: "a host address",
        device_id: "-1 is written, any is accepted",
        event: None,
        waiting: "not needed; an event is an error",
        shared: "nothing",
    },
    Convention {
        device_type: DeviceType::CUDA,
        buffers: "a device address",
        device_id: "the CUDA ordinal",
        event: Some("cudaEvent_t (the same as CUevent)"),
        waiting: "on a stream of any device of the process, or on the host",
        shared: "the primary context; for the queue of another GPU, peer access",
    },
    Convention {
        device_type: DeviceType::CUDA_HOST,
        buffers: "a host address of pinned memory",
        device_id: "the CUDA ordinal; -1 and 0 are accepted",
        event: Some("cudaEvent_t (the same as CUevent)"),
        waiting: "on a stream or on the host, which then reads in place",
        shared: "the primary context",
    },
    Convention {
        device_type: DeviceType::OPENCL,
        buffers: "a cl_mem; an SVM pointer where the device was opened for that",
        device_id: "a hint, because loaders order devices differently; the handle decides",
        event: Some("cl_event"),
        waiting: "in a wait list of the same context; for another context by callback and user event, or on the host; a \
                  negative status is an error",
        shared: "the context that the handle belongs to",
    },
    Convention {
        device_type: DeviceType::VULKAN,
        buffers: "a VkBuffer, with storage and transfer usage, concurrent or of one queue family",
        device_id: "the value of the VkDevice handle",
        event: Some("VkEvent, set after a full barrier behind all commands"),
        waiting: "by a command where the device has one queue, otherwise the host polls",
        shared: "the instance, the device, its queues and their locks, given to both by the application",
    },
    Convention {
        device_type: DeviceType::METAL,
        buffers: "a page-aligned host address of shared storage",
        device_id: "the registryID; -1 is accepted for the default device",
        event: Some(
            "an MTLSharedEvent object, signalled at the value 1 (sync_event is the object itself)",
        ),
        waiting: "an encoded wait, or on the host; another kind of MTLEvent is an error",
        shared: "nothing",
    },
    Convention {
        device_type: DeviceType::VPI,
        buffers: "an address in the memory of the simulation, where 0 is null",
        device_id: "the number of the simulator",
        event: None,
        waiting: "the exporter waits before it exports",
        shared: "the simulator",
    },
    Convention {
        device_type: DeviceType::ROCM,
        buffers: "a device address",
        device_id: "the HIP ordinal",
        event: Some("hipEvent_t"),
        waiting: "on a stream of any device of the process, or on the host",
        shared: "the primary context; for the queue of another GPU, peer access",
    },
    Convention {
        device_type: DeviceType::ROCM_HOST,
        buffers: "a host address of pinned memory",
        device_id: "the HIP ordinal; -1 and 0 are accepted",
        event: Some("hipEvent_t"),
        waiting: "on a stream or on the host, which then reads in place",
        shared: "the primary context",
    },
    Convention {
        device_type: DeviceType::EXT_DEV,
        buffers: "an address of the software device",
        device_id: "the instance, with a tag that tells ours from others'",
        event: Some(
            "a table of functions that the C header declares (sync_event is the table itself)",
        ),
        waiting: "through the table: on a queue, or on the host with a time limit",
        shared: "nothing: the table can be called without this library",
    },
    Convention {
        device_type: DeviceType::CUDA_MANAGED,
        buffers: "a managed address",
        device_id: "the CUDA ordinal; -1 and 0 are accepted",
        event: Some("cudaEvent_t (the same as CUevent)"),
        waiting: "on a stream or on the host, which reads in place only with concurrent managed access and otherwise after \
                  a wait for the whole device, or by a copy",
        shared: "the primary context",
    },
    Convention {
        device_type: DeviceType::ONEAPI,
        buffers: "a USM pointer",
        device_id: "an index over the root devices",
        event: Some("sycl::event (sync_event is the object itself)"),
        waiting: "a barrier on a queue, or on the host",
        shared: "the same major version of the SYCL runtime, and its default context",
    },
    Convention {
        device_type: DeviceType::WEBGPU,
        buffers: "a WGPUBuffer of webgpu.h; on the crate wgpu a number of arrow-device-wgpu",
        device_id: "the value of the WGPUDevice handle; on the crate wgpu a number of arrow-device-wgpu",
        event: None,
        waiting: "nothing for work on its one queue; the host waits for the queue",
        shared: "the device, given to both by the application",
    },
    Convention {
        device_type: DeviceType::HEXAGON,
        buffers: "an rpcmem address",
        device_id: "the DSP domain",
        event: None,
        waiting: "the exporter waits before it exports",
        shared: "the file descriptor of the rpcmem allocation",
    },
];

impl fmt::Display for Convention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.device_type)?;
        writeln!(f, "  buffers[i]  {}", self.buffers)?;
        writeln!(f, "  device_id   {}", self.device_id)?;
        writeln!(f, "  sync_event  {}", self.event.unwrap_or("always null"))?;
        writeln!(f, "  waiting     {}", self.waiting)?;
        write!(f, "  shared      {}", self.shared)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    /// The page that the documentation shows.
    fn page() -> String {
        let mut page = String::from("\n# The fourteen\n\n");
        page += "| type | value | `buffers[i]` | `device_id` | `sync_event` | waiting | shared |\n";
        page += "|---|---|---|---|---|---|---|\n";
        for one in ALL {
            let Convention { device_type, buffers, device_id, event, waiting, shared } = one;
            let event = event.unwrap_or("always null");
            let value = device_type.0;
            let row = format!(
                "| `{device_type}` | {value} | {buffers} | {device_id} | {event} | {waiting} | {shared} |"
            );
            writeln!(page, "{row}").unwrap();
        }
        page
    }

    #[test]
    fn the_documentation_shows_the_values() {
        let shown = include_str!("convention.md").replace("\r\n", "\n");
        assert_eq!(shown, page(), "`convention.md` has to be:\n{}", page());
    }
}
