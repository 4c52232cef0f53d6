//! Producers with one wrong field, and the error that each gets; and producers that are odd and
//! right.

use arrow_device::ErrorKind::{self, LimitExceeded, Malformed, Unsupported};
use arrow_device::abi::dlpack::{DLDataType, DLDeviceType};

use super::Recipe;

/// The name of a mistake, the kind of the error that import returns, and the function that makes
/// the mistake.
pub type WrongTensor = (&'static str, ErrorKind, fn(&mut Recipe));

/// Every field, made wrong in turn.
pub const REFUSED: &[WrongTensor] = &[
    ("a negative number of dimensions", Malformed, |it| it.ndim = Some(-1)),
    ("the smallest number of dimensions", Malformed, |it| it.ndim = Some(i32::MIN)),
    ("65 dimensions", LimitExceeded, |it| it.shape = Some(vec![1; 65])),
    ("more dimensions than memory", LimitExceeded, |it| it.ndim = Some(i32::MAX)),
    ("a null shape", Malformed, |it| {
        it.shape = None;
        it.ndim = Some(2);
    }),
    ("a negative length", Malformed, |it| it.shape = Some(vec![2, -3])),
    ("a negative length and no strides", Malformed, |it| {
        it.shape = Some(vec![-1, 3]);
        it.strides = None;
    }),
    ("a negative length beside an empty dimension", Malformed, |it| it.shape = Some(vec![0, -3])),
    ("lengths whose product overflows", LimitExceeded, |it| {
        it.shape = Some(vec![1 << 32, 1 << 32]);
        it.strides = Some(vec![0, 0]);
    }),
    ("lengths whose product overflows, and no strides", LimitExceeded, |it| {
        it.shape = Some(vec![1 << 40, 1 << 40]);
        it.strides = None;
    }),
    ("more bytes than there are", LimitExceeded, |it| {
        it.shape = Some(vec![1 << 60, 3]);
        it.strides = None;
    }),
    ("a stride that overflows", LimitExceeded, |it| it.strides = Some(vec![i64::MAX, 2])),
    ("the smallest stride", LimitExceeded, |it| it.strides = Some(vec![i64::MIN, 1])),
    ("strides that lead out of all memory", LimitExceeded, |it| {
        it.strides = Some(vec![1 << 60, 1]);
    }),
    ("strides that lead below all memory", LimitExceeded, |it| {
        it.strides = Some(vec![-(1 << 60), 1]);
    }),
    ("no data", Malformed, |it| it.bytes = None),
    ("an offset behind all memory", LimitExceeded, |it| it.byte_offset = u64::MAX),
    ("an offset of half of all memory", LimitExceeded, |it| it.byte_offset = 1 << 63),
    ("elements of no bits", Malformed, |it| it.dtype.bits = 0),
    ("no lanes", Malformed, |it| it.dtype.lanes = 0),
    ("an unknown type", Unsupported, |it| it.dtype.code = 18),
    ("the last unknown type", Unsupported, |it| it.dtype.code = 255),
    ("an integer of 12 bits", Unsupported, |it| it.dtype.bits = 12),
    ("a boolean of one bit", Unsupported, |it| {
        it.dtype = DLDataType { code: 6, bits: 1, lanes: 1 };
    }),
    ("a float of 6 bits that says 8", Unsupported, |it| {
        it.dtype = DLDataType { code: 15, bits: 8, lanes: 1 };
    }),
    ("packed elements that are not compact", Unsupported, |it| {
        it.dtype = DLDataType { code: 0, bits: 4, lanes: 1 };
        it.strides = Some(vec![1, 2]);
    }),
    ("device type 0", Malformed, |it| it.device.device_type = DLDeviceType(0)),
    ("a negative device type", Malformed, |it| it.device.device_type = DLDeviceType(-7)),
    ("a negative number of a GPU", Malformed, |it| {
        it.device.device_type = DLDeviceType(2);
        it.device.device_id = -1;
    }),
    ("Metal", Unsupported, |it| it.device.device_type = DLDeviceType(8)),
    ("an element before the start of a handle", Malformed, |it| {
        it.device.device_type = DLDeviceType(4);
        it.strides = Some(vec![3, -1]);
    }),
];

/// The mistakes that only the newer form can make.
pub const REFUSED_VERSIONED: &[WrongTensor] = &[
    ("a major version to come", Unsupported, |it| it.version.major = 2),
    ("a major version that never was", Unsupported, |it| it.version.major = 0),
    ("the largest version", Unsupported, |it| it.version.major = u32::MAX),
    ("a version to come with nonsense behind", Unsupported, |it| {
        it.version.major = 9;
        it.ndim = Some(i32::MAX);
        it.shape = None;
        it.data = Some(std::ptr::without_provenance_mut(1));
    }),
];

/// The name of a case that is odd and right, the function that makes it, its shape, and its
/// elements in row-major order.
pub type Odd = (&'static str, fn(&mut Recipe), &'static [i64], &'static [i32]);

/// All cases that are odd and right.
pub const ACCEPTED: &[Odd] = &[
    ("as it comes", |_| {}, &[2, 3], &[0, 1, 2, 3, 4, 5]),
    ("no strides", |it| it.strides = None, &[2, 3], &[0, 1, 2, 3, 4, 5]),
    (
        "a row with any stride",
        |it| {
            it.shape = Some(vec![1, 4]);
            it.strides = Some(vec![77, 1]);
        },
        &[1, 4],
        &[0, 1, 2, 3],
    ),
    (
        "a row with the largest stride",
        |it| {
            it.shape = Some(vec![1, 2, 1]);
            it.strides = Some(vec![i64::MAX, 3, i64::MIN]);
        },
        &[1, 2, 1],
        &[0, 3],
    ),
    (
        "columns first",
        |it| {
            it.shape = Some(vec![3, 2]);
            it.strides = Some(vec![1, 3]);
        },
        &[3, 2],
        &[0, 3, 1, 4, 2, 5],
    ),
    (
        "every second one",
        |it| {
            it.shape = Some(vec![3]);
            it.strides = Some(vec![2]);
        },
        &[3],
        &[0, 2, 4],
    ),
    (
        "the same one again",
        |it| {
            it.shape = Some(vec![3]);
            it.strides = Some(vec![0]);
            it.byte_offset = 8;
        },
        &[3],
        &[2, 2, 2],
    ),
    (
        "backwards",
        |it| {
            it.shape = Some(vec![6]);
            it.strides = Some(vec![-1]);
            it.byte_offset = 20;
        },
        &[6],
        &[5, 4, 3, 2, 1, 0],
    ),
    (
        "a single number",
        |it| {
            it.shape = None;
            it.strides = None;
            it.byte_offset = 16;
        },
        &[],
        &[4],
    ),
    (
        "a single number with tables",
        |it| {
            it.shape = Some(vec![]);
            it.strides = Some(vec![]);
        },
        &[],
        &[0],
    ),
    (
        "no elements and no data",
        |it| {
            it.shape = Some(vec![2, 0]);
            it.bytes = None;
        },
        &[2, 0],
        &[],
    ),
    ("no elements and an address", |it| it.shape = Some(vec![0, 3]), &[0, 3], &[]),
    (
        "no elements and a huge dimension",
        |it| it.shape = Some(vec![0, i64::MAX]),
        &[0, i64::MAX],
        &[],
    ),
    ("CPU number 1", |it| it.device.device_id = 1, &[2, 3], &[0, 1, 2, 3, 4, 5]),
    ("a minor version to come", |it| it.version.minor = 99, &[2, 3], &[0, 1, 2, 3, 4, 5]),
    (
        "no alignment",
        |it| {
            let bytes = it.bytes.take().unwrap();
            it.bytes = Some([&[9][..], &bytes].concat());
            it.byte_offset = 1;
        },
        &[2, 3],
        &[0, 1, 2, 3, 4, 5],
    ),
    ("flags to come", |it| it.flags = 1 | 1 << 40, &[2, 3], &[0, 1, 2, 3, 4, 5]),
];
