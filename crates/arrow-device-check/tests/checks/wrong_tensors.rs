//! Peers that exchange tensors: each that is wrong, for the table of pairs. And those who are
//! right are not blamed.

use arrow_device::abi::dlpack::{DLDeviceType, DLManagedTensorVersioned, DLTensor};
use arrow_device::dlpack::{Order, Tensor};
use arrow_device_check::{Entry, Kind, Peer, Side, child_with, usual_places};
use arrow_device_testkit::tensors::Recipe;

use crate::pairs::Pair;
use crate::support;

#[test]
fn the_child_of_the_other_tests() {
    child_with(peer);
}

/// What a producer does differently, and whose rule that is.
type Wrong = (&'static str, &'static str, fn(&mut Recipe));

const PRODUCERS: &[Wrong] = &[
    ("a negative number of dimensions", "DLP-7", |it| it.ndim = Some(-1)),
    ("more dimensions than memory", "DLP-7", |it| it.ndim = Some(i32::MAX)),
    ("no shape", "DLP-7", |it| {
        it.shape = None;
        it.ndim = Some(2);
    }),
    ("a negative length", "DLP-7", |it| it.shape = Some(vec![2, -3])),
    ("a shape that is more than all memory", "DLP-7", |it| {
        it.shape = Some(vec![1 << 40, 1 << 40]);
        it.strides = None;
    }),
    ("strides that lead out of all memory", "DLP-7", |it| it.strides = Some(vec![1 << 60, 1])),
    ("no data", "DLP-7", |it| it.bytes = None),
    ("an offset behind all memory", "DLP-7", |it| it.byte_offset = 1 << 63),
    ("elements of no bits", "DLP-4", |it| it.dtype.bits = 0),
    ("no lanes", "DLP-4", |it| it.dtype.lanes = 0),
    ("an unknown type", "DLP-4", |it| it.dtype.code = 18),
    ("an integer of 12 bits", "DLP-4", |it| it.dtype.bits = 12),
    ("device type 0", "DLP-9", |it| it.device.device_type = DLDeviceType(0)),
    ("a negative number of a GPU", "DLP-9", |it| {
        it.device.device_type = DLDeviceType(2);
        it.device.device_id = -1;
    }),
    ("a major version to come", "DLP-11", |it| it.version.major = 2),
    ("flags that nobody knows", "DLP-12", |it| it.flags = 1 << 40),
    ("no deleter", "DLP-10", |it| it.has_deleter = false),
];

fn producer(change: fn(&mut Recipe)) -> Peer {
    let entry = Entry::ProduceTensor(Box::new(move |_, out| {
        let mut recipe = Recipe::default();
        change(&mut recipe);
        let (tensor, _) = recipe.make::<DLManagedTensorVersioned>();
        unsafe { out.write(tensor) };
        0
    }));
    Peer::new(entry, usual_places(true, false))
}

/// A producer that forgets a little each time.
fn leaky() -> Peer {
    let entry = Entry::ProduceTensor(Box::new(move |_, out| {
        std::mem::forget(vec![0_u8; 100]);
        let (tensor, _) = Recipe::default().make::<DLManagedTensorVersioned>();
        unsafe { out.write(tensor) };
        0
    }));
    Peer::new(entry, usual_places(true, false))
}

type Consume = unsafe fn(*mut DLManagedTensorVersioned) -> i32;

/// What they do with a tensor that may be one: whatever is none is looked at as ours do, so that
/// each has one fault.
const CONSUMERS: &[(&str, &str, Consume)] = &[
    ("never deletes", "DLP-6", |_| 0),
    ("believes what it is told", "SYS-2", |tensor| {
        unsafe { delete(tensor) };
        0
    }),
    ("takes any version", "DLP-11", |tensor| {
        unsafe { delete(tensor) };
        0
    }),
    ("needs strides", "DLP-7", |tensor| {
        let _ = unsafe { (*tensor).dl_tensor.strides.read_volatile() };
        unsafe { ours(tensor) }
    }),
    ("needs a dimension", "DLP-7", |tensor| {
        let _ = unsafe { (*tensor).dl_tensor.shape.read_volatile() };
        unsafe { ours(tensor) }
    }),
    ("divides by the number of elements", "DLP-7", |tensor| {
        let DLTensor { shape, ndim, .. } = unsafe { &(*tensor).dl_tensor };
        let lengths = (0..*ndim as usize).map(|index| unsafe { *shape.add(index) });
        if lengths.product::<i64>() == 0 {
            // What the system does with whoever divides by it.
            std::process::abort();
        }
        unsafe { ours(tensor) }
    }),
    ("needs a deleter", "DLP-10", |tensor| {
        unsafe { (*tensor).deleter.unwrap() };
        unsafe { ours(tensor) }
    }),
    ("writes to what is read-only", "DLP-12", |tensor| {
        let bytes = unsafe { (*tensor).dl_tensor.data }.cast::<u8>();
        if !bytes.is_null() && bytes.addr() > 0x1000 {
            unsafe { bytes.write(77) };
        }
        unsafe { ours(tensor) }
    }),
];

/// Whether a consumer may look at the dimensions.
unsafe fn has_dimensions(tensor: *mut DLManagedTensorVersioned) -> bool {
    let DLTensor { shape, ndim, .. } = unsafe { &(*tensor).dl_tensor };
    let is_counted = *ndim == 0 || *ndim > 0 && !shape.is_null();
    is_counted && (0..*ndim as usize).all(|at| unsafe { *shape.add(at) } >= 0)
}

unsafe fn delete(tensor: *mut DLManagedTensorVersioned) {
    if let Some(delete) = unsafe { (*tensor).deleter } {
        unsafe { delete(tensor) };
    }
}

unsafe fn ours(tensor: *mut DLManagedTensorVersioned) -> i32 {
    support::code(unsafe { Tensor::import(tensor, Order::Host) })
}

pub(crate) fn peer(name: &str) -> Option<Peer> {
    let (side, number) = name.split_once(' ')?;
    let number = number.parse::<usize>().ok();
    Some(match (side, number) {
        ("leaky", _) => leaky(),
        ("producer", None) => producer(|_| {}),
        ("producer", Some(number)) => producer(PRODUCERS[number].2),
        _ => {
            let (what, _, consume) =
                number.map_or(("", "", ours as Consume), |number| CONSUMERS[number]);
            let entry = Entry::ConsumeTensor(Box::new(move |_, tensor| {
                let is_version = unsafe { (*tensor).version.major } == 1;
                let is_faulty = match what {
                    "believes what it is told" => is_version,
                    "takes any version" => !is_version,
                    _ => is_version && unsafe { has_dimensions(tensor) },
                };
                if is_faulty { unsafe { consume(tensor) } } else { unsafe { ours(tensor) } }
            }));
            Peer::new(entry, usual_places(false, false))
        }
    })
}

/// The rows of the table of pairs.
pub(crate) fn pairs() -> Vec<Pair> {
    let pair = |side: Side, faulty: String, what: &'static str, id| {
        let right = format!("tensors@{} right", side.name());
        Pair::of_rust(Kind::Dlpack, side, format!("tensors@{faulty}"), right, what, id)
    };
    let producers = PRODUCERS.iter().enumerate().map(|(number, (what, id, _))| {
        pair(Side::Producer, format!("producer {number}"), what, id)
    });
    let consumers = CONSUMERS.iter().enumerate().map(|(number, (what, id, _))| {
        pair(Side::Consumer, format!("consumer {number}"), what, id)
    });
    let leaky = pair(Side::Producer, "leaky tensors".into(), "forgets a little each time", "DLP-6");
    producers.chain(consumers).chain([leaky]).collect()
}

#[test]
fn those_who_are_right_are_not_blamed() {
    support::assert_right("producer right", Kind::Dlpack, Side::Producer);
    support::assert_right("consumer right", Kind::Dlpack, Side::Consumer);
}
