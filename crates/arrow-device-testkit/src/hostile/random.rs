//! Structs with several random mistakes, chosen by a seed.

use std::ptr;
use std::sync::Arc;

use arrow_device::abi::{ArrowArray, ArrowSchema};

use super::{Hostile, Owed, every_layout};
use crate::plan::Plan;

/// Returns structs with one to four members of an array or a schema made wrong at random. The same
/// seed gives the same structs.
///
/// The members may make sense by chance, so a refusal is not owed. One release is.
pub fn random(seed: u64) -> Hostile {
    let mut dice = Dice(seed);
    let root = every_layout();
    let plan = match dice.below(3) {
        0 => root,
        // A small tree, so that more of it is hit.
        _ => Arc::new(root.children[dice.below(root.children.len())].clone()),
    };
    let spoils: Vec<[u64; 3]> =
        (0..=dice.below(4)).map(|_| [dice.roll(), dice.roll(), dice.roll()]).collect();
    let name = format!("random {seed}");
    let planned = plan.clone();
    if dice.below(2) == 0 {
        Hostile::of_array(name, &plan, Owed::Either, move |base| {
            let mut all = Vec::new();
            arrays_below(&raw mut base.array, &planned, &mut all);
            for [which, member, value] in &spoils {
                let (node, plan) = all[*which as usize % all.len()];
                spoil_array(unsafe { &mut *node }, *member, number(*value), plan);
            }
        })
    } else {
        Hostile::of_schema(name, &plan, Owed::Either, move |base| {
            let mut all = Vec::new();
            schemas_below(base, &planned, &mut all);
            for [which, member, value] in &spoils {
                let (node, plan) = all[*which as usize % all.len()];
                spoil_schema(unsafe { &mut *node }, *member, number(*value), plan);
            }
        })
    }
}

/// Random numbers: splitmix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.roll() % limit as u64) as usize
    }
}

/// Returns a special number or any number.
fn number(value: u64) -> i64 {
    let chosen = [0, 1, -1, 2, 5, 6, 1 << 31, 1 << 62, i64::MAX, i64::MAX - 8, i64::MIN];
    match value % 3 {
        0 => chosen[(value / 3) as usize % chosen.len()],
        1 => (value / 3) as i64 % 12,
        _ => (value << 1) as i64,
    }
}

/// Returns the structs before anything is spoiled, with the plan of each.
fn arrays_below<'a>(
    array: *mut ArrowArray,
    plan: &'a Plan,
    all: &mut Vec<(*mut ArrowArray, &'a Plan)>,
) {
    all.push((array, plan));
    for (index, child) in plan.children.iter().enumerate() {
        arrays_below(unsafe { *(*array).children.add(index) }, child, all);
    }
    if let Some(values) = &plan.dictionary {
        arrays_below(unsafe { (*array).dictionary }, values, all);
    }
}

fn schemas_below<'a>(
    schema: *mut ArrowSchema,
    plan: &'a Plan,
    all: &mut Vec<(*mut ArrowSchema, &'a Plan)>,
) {
    all.push((schema, plan));
    for (index, child) in plan.children.iter().enumerate() {
        schemas_below(unsafe { *(*schema).children.add(index) }, child, all);
    }
    if let Some(values) = &plan.dictionary {
        schemas_below(unsafe { (*schema).dictionary }, values, all);
    }
}

/// Sets a member, as far as it can be told whether that is right without trusting a pointer that is
/// not null.
fn spoil_array(node: &mut ArrowArray, member: u64, value: i64, planned: &Plan) {
    let (buffers, children) = (planned.buffers.len(), planned.children.len());
    let index = value.unsigned_abs() as usize;
    match member % 11 {
        0 => node.length = value,
        1 => node.offset = value,
        2 => node.null_count = value,
        // A table of views that is too short cannot be found out.
        3 if planned.format.to_bytes().starts_with(b"v") => node.n_buffers = value.min(2),
        3 => node.n_buffers = value,
        4 => node.n_children = value,
        5 => node.buffers = ptr::null_mut(),
        6 => node.children = ptr::null_mut(),
        7 if buffers > 0 && !node.buffers.is_null() => unsafe {
            *node.buffers.add(index % buffers) = ptr::null();
        },
        8 if children > 0 && !node.children.is_null() => unsafe {
            *node.children.add(index % children) = ptr::null_mut();
        },
        9 => node.dictionary = ptr::null_mut(),
        10 => node.release = None,
        _ => {}
    }
}

fn spoil_schema(node: &mut ArrowSchema, member: u64, value: i64, planned: &Plan) {
    let children = planned.children.len();
    let index = value.unsigned_abs() as usize;
    let formats = [
        c"l", c"u", c"+l", c"+s", c"+m", c"+r", c"d:3,1", c"vu", c"n", c"+us:0,1", c"+w:3", c"?",
        c"",
    ];
    match member % 8 {
        0 => node.format = formats[index % formats.len()].as_ptr(),
        1 => node.format = ptr::null(),
        2 => node.flags = value,
        // A number above that of the children that is not absurdly high cannot be found out.
        3 if value < children as i64 || value > 1 << 20 => node.n_children = value,
        4 => node.children = ptr::null_mut(),
        5 if children > 0 && !node.children.is_null() => unsafe {
            *node.children.add(index % children) = ptr::null_mut();
        },
        6 => node.dictionary = ptr::null_mut(),
        7 => node.name = ptr::null(),
        _ => {}
    }
}
