//! The buffers of several arrays by where they lie.
//!
//! What begins at the same place is one block with several users. Blocks that lie close together
//! are one region, such as the allocation into which a copy packs all buffers; handles say nothing
//! of where they are, so each device has one region of them.

use std::collections::BTreeMap;

use arrow_device::driver::Addressing;
use arrow_device::{Device, DeviceId, DeviceType, Extent};

use super::survey::Survey;

/// What is farther apart than this is shown apart.
const NEAR: u64 = 4096;

/// Where all buffers lie.
pub(super) struct MemoryMap {
    pub(super) regions: Vec<Region>,
}

/// Blocks that lie together.
pub(super) struct Region {
    pub(super) device: DeviceId,
    pub(super) has_handles: bool,
    /// By address.
    pub(super) blocks: Vec<MemoryBlock>,
}

/// A buffer, or several that begin at the same place.
pub(super) struct MemoryBlock {
    pub(super) address: usize,
    pub(super) extent: Extent,
    pub(super) users: Vec<User>,
}

/// Who uses a block.
pub(super) struct User {
    pub(super) batch: usize,
    /// The number of the column, for its colour.
    pub(super) column: usize,
    pub(super) path: String,
    pub(super) kind: String,
}

impl MemoryMap {
    pub(super) fn of(surveys: &[Survey]) -> Self {
        let mut places: BTreeMap<(DeviceId, usize), MemoryBlock> = BTreeMap::new();
        for (batch, survey) in surveys.iter().enumerate() {
            for (column, node) in survey.nodes() {
                for buffer in node.buffers.iter().filter(|buffer| buffer.address != 0) {
                    let block =
                        places.entry((buffer.device, buffer.address)).or_insert(MemoryBlock {
                            address: buffer.address,
                            extent: buffer.extent,
                            users: Vec::new(),
                        });
                    if buffer.extent.at_least() > block.extent.at_least() {
                        block.extent = buffer.extent;
                    }
                    let path = if node.path.is_empty() { "root" } else { &node.path };
                    let (path, kind) = (path.to_owned(), buffer.kind.clone());
                    block.users.push(User { batch, column, path, kind });
                }
            }
        }
        let mut regions: Vec<Region> = Vec::new();
        for ((device, address), block) in places {
            match regions.last_mut() {
                Some(last)
                    if last.device == device && (last.has_handles || last.is_near(address)) =>
                {
                    last.blocks.push(block);
                }
                _ => {
                    let has_handles = has_handles(device);
                    regions.push(Region { device, has_handles, blocks: vec![block] });
                }
            }
        }
        Self { regions }
    }

    /// Blocks that more than one buffer uses.
    pub(super) fn shared(&self) -> impl Iterator<Item = &MemoryBlock> {
        self.regions.iter().flat_map(|region| &region.blocks).filter(|block| block.users.len() > 1)
    }

    /// The bytes of all blocks, each counted once.
    pub(super) fn bytes(&self) -> u64 {
        self.regions.iter().map(Region::bytes).sum()
    }

    pub(super) fn block_count(&self) -> usize {
        self.regions.iter().map(|region| region.blocks.len()).sum()
    }
}

impl Region {
    pub(super) fn start(&self) -> usize {
        self.blocks.first().map_or(0, |block| block.address)
    }

    /// Behind the last byte that is known of.
    pub(super) fn end(&self) -> u64 {
        self.blocks.iter().map(MemoryBlock::end).max().unwrap_or(0)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.blocks.iter().map(|block| block.extent.at_least()).sum()
    }

    fn is_near(&self, address: usize) -> bool {
        (address as u64).saturating_sub(self.end()) <= NEAR
    }
}

impl MemoryBlock {
    pub(super) fn end(&self) -> u64 {
        (self.address as u64).saturating_add(self.extent.at_least())
    }
}

/// Whether a device's places are handles. Where it is not open here, its type says it.
fn has_handles(device: DeviceId) -> bool {
    let open = Device::find(device).map(|device| device.properties().addressing);
    let of_type = || {
        [DeviceType::OPENCL, DeviceType::VULKAN, DeviceType::WEBGPU].contains(&device.device_type)
    };
    open.map_or_else(of_type, |addressing| addressing == Addressing::Handle)
}

#[cfg(test)]
mod tests {
    use arrow_device::{Array, Batch, DataType};

    use super::*;

    #[test]
    fn what_is_in_two_columns_is_one_block_with_two_users() {
        let numbers = Array::from_values(DataType::Int64, (0..9_i64).map(Some)).unwrap();
        let other = Array::from_values(DataType::Int64, (0..9_i64).map(Some)).unwrap();
        let batch =
            Batch::from_columns([("a", numbers.clone()), ("b", other), ("c", numbers)]).unwrap();
        let memory = MemoryMap::of(&[Survey::of(batch.as_array()).unwrap()]);
        let shared: Vec<Vec<&str>> = memory
            .shared()
            .map(|block| block.users.iter().map(|user| user.path.as_str()).collect())
            .collect();
        assert_eq!(shared, [["a", "c"]]);
        assert_eq!((memory.block_count(), memory.bytes()), (2, 144));
    }

    #[test]
    fn the_buffers_of_the_root_are_there_too() {
        let items = Array::from_values(DataType::Int32, (0..3).map(Some)).unwrap();
        let lists = DataType::list(DataType::Int32);
        let lists = Array::from_lists(lists, [Some(2), None, Some(1)], items.clone()).unwrap();
        let fields = DataType::struct_([arrow_device::Field::new("x", DataType::Int32, true)]);
        let rows = Array::from_fields(fields, [true, false, true], [items]).unwrap();
        let blocks = |array: &Array| MemoryMap::of(&[Survey::of(array).unwrap()]).block_count();
        assert_eq!((blocks(&lists), blocks(&rows)), (3, 2));
    }

    #[test]
    fn handles_of_a_device_are_one_region() {
        assert!(has_handles(DeviceId::new(DeviceType::VULKAN, 7)));
        assert!(!has_handles(DeviceId::CPU) && !has_handles(DeviceId::new(DeviceType::CUDA, 0)));
    }
}
