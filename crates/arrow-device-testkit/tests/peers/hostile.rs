//! The hostile structs: how many there are, and that importers that are wrong fall for them.

use std::any::Any;
use std::collections::BTreeSet;
use std::ptr;

use arrow_device::abi::{ArrowArray, ArrowDeviceArray, ArrowSchema};
use arrow_device::{Array, Error, ErrorKind, NodePath, Result, Schema, Step};
use arrow_device_sim::Sim;
use arrow_device_testkit::hostile::{self, Hostile, Importer, Ours, Owed};
use arrow_device_testkit::kinds::Kind;
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::plan::{Content, Nulls, Window, integers};
use arrow_device_testkit::{assert_complaint, consumer, producer};

// Requirement: SYS-2
#[test]
fn every_hostile_struct_has_a_name_of_its_own_and_their_number_is_pinned() {
    let all = hostile::all();
    let schemas = all.iter().filter(|hostile| hostile.is_schema()).count();
    let refusals = all.iter().filter(|hostile| hostile.owed != Owed::Acceptance).count();
    println!("{} hostile structs, {schemas} of them schemas; {refusals} owed a refusal", all.len());
    assert_eq!((all.len(), schemas, refusals), (2373, 1259, 2257));
    let names: BTreeSet<&str> = all.iter().map(|hostile| hostile.name.as_str()).collect();
    assert_eq!(names.len(), all.len());
}

// Requirement: SYS-2
#[test]
fn the_library_does_what_is_owed() {
    for hostile in hostile::all() {
        assert_eq!(hostile.check(&Ours), Ok(()), "{}", hostile.name);
    }
}

#[test]
fn the_same_seed_is_the_same_mistake_and_others_are_others() {
    let outcomes = |seeds: std::ops::Range<u64>| -> Vec<String> {
        let said = |seed| {
            let error = std::cell::RefCell::new(String::new());
            assert_eq!(hostile::random(seed).check(&Listening(&error)), Ok(()), "{seed}");
            error.into_inner()
        };
        seeds.map(said).collect()
    };
    let first = outcomes(0..500);
    assert_eq!(first, outcomes(0..500));
    let different: BTreeSet<&String> = first.iter().collect();
    assert!(different.len() > 150, "{}", different.len());
    assert!(first.iter().any(String::is_empty), "some make sense");
}

/// Remembers what was said.
struct Listening<'a>(&'a std::cell::RefCell<String>);

impl Importer for Listening<'_> {
    fn array(&self, array: &mut ArrowDeviceArray, schema: &Schema) -> Result<Box<dyn Any>> {
        Ours.array(array, schema).inspect_err(|error| *self.0.borrow_mut() = error.to_string())
    }
}

/// Which only the buffers can say, so that an import cannot know it.
// Requirement: SYS-2
#[test]
fn a_negative_size_of_a_data_buffer_is_refused_when_it_is_needed() {
    let mut plan = Kind::Views("vu").plan(Window::WHOLE, Nulls::None);
    plan.buffers[4] = Content::Bytes(integers(8, [30, -25]));
    let ledger = Ledger::new();
    let schema = unsafe { Schema::import(&mut producer::schema(&plan, &ledger)) }.unwrap();
    let mut c_array = producer::device_array(&plan, &ledger);
    let array = unsafe { Array::import(&mut c_array, &schema) }.unwrap();
    let kinds =
        [array.host().unwrap().buffer(3).unwrap_err().kind(), array.validate().unwrap_err().kind()];
    assert_eq!(kinds, [ErrorKind::InvalidData; 2]);
    let sim = Sim::builder().build();
    let queue = sim.device().open_queue().unwrap();
    assert_eq!(array.copy_to(&queue).unwrap_err().kind(), ErrorKind::InvalidData);
    drop(array);
    assert_eq!(ledger.settle(2), Ok(()));
}

// ---- importers that are wrong

/// The first case with this in its name.
fn case(what: &str) -> Hostile {
    let named = |hostile: &Hostile| hostile.name.contains(what);
    hostile::all().into_iter().find(named).unwrap_or_else(|| panic!("no `{what}`"))
}

/// Takes anything, and releases it as often as it is told.
struct Trusting {
    releases: usize,
    refuses: bool,
}

struct Taken(ArrowDeviceArray, usize);

impl Drop for Taken {
    fn drop(&mut self) {
        let release = self.0.array.release;
        for _ in 0..self.1 {
            if let Some(release) = release {
                unsafe { release(&mut self.0.array) };
            }
        }
    }
}

impl Importer for Trusting {
    fn array(&self, array: &mut ArrowDeviceArray, _: &Schema) -> Result<Box<dyn Any>> {
        let moved = ArrowDeviceArray { array: consumer::copy_of(&array.array), ..*array };
        array.array.release = None;
        let taken = Taken(moved, self.releases);
        if self.refuses {
            drop(taken);
            let place = NodePath::new([Step::Child(5)]);
            return Err(Error::new(ErrorKind::Malformed, "no").at(place));
        }
        Ok(Box::new(taken))
    }
}

#[test]
fn importers_that_trust_or_leak_or_release_twice_are_found_out() {
    let wrong = case("array +l at root.child[5]: length -1");
    let check = |releases, refuses| wrong.check(&Trusting { releases, refuses });
    assert_complaint(check(1, false), "accepted");
    assert_eq!(check(1, true), Ok(()));
    assert_complaint(check(0, true), "0 releases of 1");
    assert_complaint(check(2, true), "released twice");
}

/// Says less than it should, or refuses what is odd and allowed.
struct Vague(fn(Error) -> Error);

impl Importer for Vague {
    fn schema(&self, schema: &mut ArrowSchema) -> Result<Schema> {
        Ours.schema(schema).map_err(self.0)
    }

    fn array(&self, array: &mut ArrowDeviceArray, schema: &Schema) -> Result<Box<dyn Any>> {
        let is_odd = array.reserved != [0x5a5a_5a5a; 3];
        let array = Ours.array(array, schema).map_err(self.0)?;
        if is_odd { Err(Error::new(ErrorKind::Malformed, "reserved")) } else { Ok(array) }
    }
}

#[test]
fn importers_that_say_little_or_refuse_too_much_are_found_out() {
    let nowhere = Vague(|error| Error::new(error.kind(), "no"));
    let of_one_kind = Vague(|_| Error::new(ErrorKind::Peer, "no"));
    for name in ["array +l at root.child[5]: length -1", "schema +l at root.child[5]: no format"] {
        let wrong = case(name);
        assert_complaint(wrong.check(&nowhere), "names root and not root.child[5]");
        assert_complaint(wrong.check(&of_one_kind), "and not Malformed");
    }
    assert_complaint(case("array reserved").check(&nowhere), "refused: malformed struct: reserved");
}

/// Does not look at the schema, or does not say that it has moved it.
struct Careless(fn(&mut ArrowSchema) -> Result<Schema>);

impl Importer for Careless {
    fn schema(&self, schema: &mut ArrowSchema) -> Result<Schema> {
        (self.0)(schema)
    }
}

#[test]
fn importers_that_are_careless_with_schemas_are_found_out() {
    let wrong = case("schema +l at root.child[5]: no format");
    let takes_anything = Careless(|schema| {
        let number = arrow_device::DataType::Int64;
        consumer::release(consumer::move_out(schema)).unwrap();
        Schema::try_from(number)
    });
    assert_complaint(wrong.check(&takes_anything), "accepted");
    let keeps =
        Careless(|schema| Ours.schema(schema).inspect_err(|_| schema.release = Some(forget)));
    assert_complaint(wrong.check(&keeps), "the source was not marked");
    let leaks = Careless(|schema| {
        schema.release = Some(forget);
        Ours.schema(schema)
    });
    assert_complaint(wrong.check(&leaks), "0 releases of 1");
    let fixes_names = Careless(|schema| {
        schema.name = ptr::null();
        Ours.schema(schema)
    });
    assert_complaint(case("schema +s at root: a name that is no").check(&fixes_names), "accepted");
}

unsafe extern "C" fn forget(schema: *mut ArrowSchema) {
    unsafe { (*schema).release = None };
}

/// What an importer does with a node before it looks: it overlooks one mistake.
struct Lenient(fn(&mut ArrowArray));

impl Importer for Lenient {
    fn array(&self, array: &mut ArrowDeviceArray, schema: &Schema) -> Result<Box<dyn Any>> {
        // The column of numbers, unless it cannot be reached.
        let root = &array.array;
        let is_sound = root.n_children == 14 && !root.children.is_null();
        let column = if is_sound { unsafe { *root.children.add(2) } } else { ptr::null_mut() };
        if let Some(column) = unsafe { column.as_mut() } {
            (self.0)(column);
        }
        Ours.array(array, schema)
    }
}

type Overlook = fn(&mut ArrowArray);

/// A table of two buffers that are not there.
static BUFFERS: [usize; 2] = [0; 2];
static NUMBERS: [i32; 5] = [0; 5];

#[test]
fn an_importer_that_overlooks_one_rule_is_found_out_by_that_rule() {
    let overlooked: [(&str, Overlook); 7] = [
        ("length", |node| node.length = 5),
        ("offset", |node| node.offset = 0),
        ("null count", |node| {
            if !(-1..=node.length).contains(&node.null_count) {
                node.null_count = -1;
            }
        }),
        ("children", |node| node.n_children = 0),
        ("buffers", |node| {
            node.n_buffers = 2;
            if node.buffers.is_null() {
                node.buffers = BUFFERS.as_ptr().cast_mut().cast();
            }
        }),
        ("buffer ", |node| {
            for index in 0..if node.buffers.is_null() { 0 } else { 2 } {
                let entry = unsafe { &mut *node.buffers.add(index) };
                if entry.is_null() {
                    *entry = NUMBERS.as_ptr().cast();
                }
            }
        }),
        ("a dictionary", |node| node.dictionary = ptr::null_mut()),
    ];
    let column = "array i at root.child[2]: ";
    let mut all = hostile::all();
    all.retain(|wrong| wrong.name.starts_with(column) && !wrong.name.ends_with("elements"));
    for (rule, overlook) in overlooked {
        let mut accepted = 0;
        for wrong in &all {
            match wrong.check(&Lenient(overlook)) {
                Ok(()) => {}
                Err(complaint) => {
                    assert!(wrong.name.contains(rule), "{} without {rule}", wrong.name);
                    accepted += usize::from(complaint == "accepted");
                }
            }
        }
        assert!(accepted > 0, "nobody noticed that `{rule}` was overlooked");
    }
}
