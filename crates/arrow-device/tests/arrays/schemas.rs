//! Schemas through the C structs: what is understood, what is refused and where, and who releases
//! what.

use std::ffi::CString;
use std::ptr;

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::{Array, DataType, Error, Field, IndexType, Schema};
use arrow_device_testkit::consumer::{self, SeenSchema};
use arrow_device_testkit::kinds::{Kind, kinds};
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::plan::{self, Nulls, Plan, Window};
use arrow_device_testkit::{Verdict, assert_complaint, producer, require};

/// A plan of this kind; nothing but its schema is used.
fn planned(kind: &Kind) -> Plan {
    kind.plan(Window::EMPTY, Nulls::None)
}

fn number() -> Plan {
    planned(&Kind::Fixed("l", 8))
}

/// A struct of a list of numbers, a dictionary of text, and a number.
fn tree() -> Plan {
    let list = Kind::List("+l", 4, Box::new(Kind::Fixed("l", 8)));
    let dictionary = Kind::Dictionary("c", 1, Box::new(Kind::Text("u", 4)));
    planned(&Kind::Struct(vec![list, dictionary, Kind::Fixed("i", 4)]))
}

/// An implementation: takes a schema over and hands an equal one on.
type Relay<'a> = dyn Fn(&mut ArrowSchema) -> Result<ArrowSchema, Error> + 'a;

fn ours(source: &mut ArrowSchema) -> Result<ArrowSchema, Error> {
    let schema = unsafe { Schema::import(source) }?;
    let mut out = ArrowSchema::empty();
    schema.export(&mut out)?;
    Ok(out)
}

/// That a schema comes out as it went in, and is released once.
fn check_kept(relay: &Relay<'_>, plan: &Plan) -> Verdict {
    let ledger = Ledger::new();
    let mut source = producer::schema(plan, &ledger);
    let expected = SeenSchema::of(&source);
    let out = relay(&mut source).map_err(|error| error.to_string())?;
    require(source.is_released(), || "the source was not marked as released".into())?;
    // Nothing of the producer's is needed any more.
    ledger.settle(1)?;
    let seen = SeenSchema::of(&out);
    require(seen == expected, || format!("{seen:?} came out of {expected:?}"))?;
    consumer::release(out)
}

// Requirement: SCH-1, SCH-4, SCH-5
#[test]
fn every_type_and_every_extension_of_it_comes_out_as_it_went_in() {
    let stride = if cfg!(miri) { 47 } else { 1 };
    for kind in kinds().iter().step_by(stride) {
        for plan in [planned(kind), planned(&Kind::Extension(Box::new(kind.clone())))] {
            assert_eq!(check_kept(&ours, &plan), Ok(()), "{kind}");
        }
    }
}

// Requirement: SCH-2, SCH-3
#[test]
fn names_metadata_and_flags_come_out_as_they_went_in() {
    let pairs: [&[(&[u8], &[u8])]; 5] = [
        &[],
        &[(b"", b"")],
        &[(b"key", b"\0\xff\n"), (b"key", b"again")],
        &[(b"\xff\xfe", &[7; 3000])],
        &[(b"a", b"1"), (b"b", b"22"), (b"c", b"333")],
    ];
    let metadata: Vec<Option<Vec<u8>>> =
        pairs.map(|pairs| Some(plan::metadata(pairs))).into_iter().chain([None]).collect();
    let names: [Option<CString>; 3] =
        [None, Some(CString::default()), Some(c"Größe, 大きさ".into())];
    let flags = [0, 1, 2, 3, 4, 7, 1 << 40, i64::MIN, -1];
    let all = metadata.iter().flat_map(|metadata| {
        names
            .iter()
            .flat_map(move |name| flags.map(|flags| (metadata.clone(), name.clone(), flags)))
    });
    let stride = if cfg!(miri) { 13 } else { 1 };
    for (metadata, name, flags) in all.step_by(stride) {
        for below in [number(), tree()] {
            let (name, metadata) = (name.clone(), metadata.clone());
            let plan = Plan { name, metadata, flags, ..below };
            assert_eq!(check_kept(&ours, &plan), Ok(()), "{plan:?}");
        }
    }
}

#[test]
fn a_relay_that_loses_something_is_found_out() {
    let named = Plan {
        name: Some(c"a".into()),
        metadata: Some(plan::metadata(&[(b"k", b"v")])),
        flags: 2 | 1 << 40,
        ..tree()
    };
    let tampered = |tamper: fn(&mut ArrowSchema)| {
        let relay = move |source: &mut ArrowSchema| {
            let mut out = ours(source)?;
            tamper(&mut out);
            Ok(out)
        };
        check_kept(&relay, &named)
    };
    assert_eq!(tampered(|_| {}), Ok(()));
    if cfg!(miri) {
        return; // What is refused is not released by the check.
    }
    for tamper in [
        (|out| out.format = c"i".as_ptr()) as fn(&mut ArrowSchema),
        |out| out.name = ptr::null(),
        |out| out.metadata = ptr::null(),
        |out| out.flags &= 7,
        |out| out.n_children -= 1,
        |out| unsafe { (**out.children.add(1)).dictionary = ptr::null_mut() },
    ] {
        assert_complaint(tampered(tamper), "came out of");
    }
    let keeps =
        |source: &mut ArrowSchema| ours(&mut ArrowSchema { ..unsafe { ptr::read(source) } });
    assert_complaint(check_kept(&keeps, &named), "the source was not marked");
    let leaks = |source: &mut ArrowSchema| {
        source.release = Some(forget);
        ours(source)
    };
    assert_complaint(check_kept(&leaks, &named), "0 releases of 1");
}

unsafe extern "C" fn forget(schema: *mut ArrowSchema) {
    unsafe { (*schema).release = None };
}

// Requirement: SCH-1
#[test]
fn an_error_names_the_byte_of_the_format() {
    let spoil =
        |root: &mut ArrowSchema| unsafe { (**root.children.add(2)).format = c"tsx:UTC".as_ptr() };
    let mut source = producer::schema(&tree(), &Ledger::new());
    spoil(&mut source);
    let error = ours(&mut source).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("root.child[2]") && text.contains("byte 2"), "{text}");
}

// Requirement: SCH-6
#[test]
fn schema_and_array_are_released_in_any_order() {
    let kind = Kind::Struct(vec![Kind::Text("u", 4), Kind::Fixed("l", 8)]);
    for schema_first in [true, false] {
        let (schema_ledger, ledger) = (Ledger::new(), Ledger::new());
        let plan = kind.plan(Window::SLICED, Nulls::Counted);
        let mut c_schema = producer::schema(&plan, &schema_ledger);
        let mut c_array = producer::device_array(&plan, &ledger);
        let schema = unsafe { Schema::import(&mut c_schema) }.unwrap();
        schema_ledger.settle(1).unwrap();
        let array = unsafe { Array::import(&mut c_array, &schema) }.unwrap();
        let (mut c_schema, mut c_array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
        array.schema().unwrap().export(&mut c_schema).unwrap();
        array.export(&mut c_array).unwrap();
        drop((schema, array));
        let seen = SeenSchema::of(&c_schema);
        if schema_first {
            consumer::release(c_schema).unwrap();
            assert_eq!(ledger.base_releases(), 0);
            consumer::release(c_array.array).unwrap();
        } else {
            consumer::release(c_array.array).unwrap();
            assert_eq!(SeenSchema::of(&c_schema), seen);
            consumer::release(c_schema).unwrap();
        }
        ledger.settle(1).unwrap();
    }
}

/// That a schema can be exported again and again, and that the exports are independent of each
/// other.
fn check_repeated(export: &dyn Fn(&mut ArrowSchema)) -> Verdict {
    let mut all = Vec::new();
    for number in 0..20 {
        let mut out = ArrowSchema::empty();
        export(&mut out);
        require(!out.is_released(), || format!("export {number} is released"))?;
        all.push(out);
    }
    let expected = SeenSchema::of(&all[0]);
    while let Some(last) = all.pop() {
        let seen = SeenSchema::of(&last);
        require(seen == expected, || format!("export {} is another schema", all.len()))?;
        consumer::release(last)?;
    }
    Ok(())
}

// Requirement: SCH-6
#[test]
fn a_schema_can_be_exported_any_number_of_times() {
    let schema = unsafe { Schema::import(&mut producer::schema(&tree(), &Ledger::new())) }.unwrap();
    assert_eq!(check_repeated(&|out| schema.export(out).unwrap()), Ok(()));
}

#[test]
#[cfg_attr(miri, ignore = "wrong peers leak, which Miri reports")]
fn a_schema_that_is_exported_once_only_is_found_out() {
    let only = std::cell::RefCell::new(producer::schema(&tree(), &Ledger::new()));
    let once = |out: &mut ArrowSchema| *out = consumer::move_out(&mut *only.borrow_mut());
    assert_complaint(check_repeated(&once), "export 1 is released");
    let turns = std::cell::Cell::new(0);
    let changing = |out: &mut ArrowSchema| {
        turns.set(turns.get() + 1);
        let plan = if turns.get() % 2 == 0 { number() } else { tree() };
        *out = producer::schema(&plan, &Ledger::new());
    };
    assert_complaint(check_repeated(&changing), "is another schema");
}

// Requirement: SCH-6
#[test]
fn children_of_a_schema_can_be_moved_out() {
    for parent_first in [true, false] {
        let mut source = producer::schema(&tree(), &Ledger::new());
        let out = ours(&mut source).unwrap();
        let expected = SeenSchema::of(&out);
        let list = consumer::move_out(unsafe { *out.children });
        let keys = consumer::move_out(unsafe { *out.children.add(1) });
        let values = consumer::move_out(keys.dictionary);
        let mut parts = vec![out, keys];
        if !parent_first {
            parts.reverse();
        }
        parts.into_iter().for_each(|part| consumer::release(part).unwrap());
        assert_eq!(SeenSchema::of(&list), expected.children[0]);
        assert_eq!(
            Some(SeenSchema::of(&values)),
            expected.children[1].dictionary.as_deref().cloned()
        );
        consumer::release(list).unwrap();
        consumer::release(values).unwrap();
    }
}

// Requirement: SCH-3, SCH-4
#[test]
fn what_is_built_here_says_what_it_is() {
    let schema = |field: Field| {
        let mut out = ArrowSchema::empty();
        Schema::new(field).unwrap().export(&mut out).unwrap();
        let seen = SeenSchema::of(&out);
        consumer::release(out).unwrap();
        seen
    };
    let plain = schema(Field::new("a", DataType::Int32, false));
    assert_eq!((plain.flags, plain.dictionary), (0, None));
    assert_eq!(schema(Field::new("a", DataType::Int32, true)).flags, 2);
    let ordered = |ordered| DataType::Dictionary {
        index: IndexType::UInt16,
        values: DataType::Utf8.into(),
        ordered,
    };
    let keys = schema(Field::new("a", ordered(true), true));
    assert_eq!(
        (keys.flags, &*keys.format, &*keys.dictionary.unwrap().format),
        (3, &b"S"[..], &b"u"[..])
    );
    assert_eq!(schema(Field::new("a", ordered(false), false)).flags, 0);
    let DataType::Map { entries, .. } = DataType::map(DataType::Utf8, DataType::Int8) else {
        unreachable!()
    };
    assert_eq!(
        schema(Field::new("a", DataType::Map { entries, keys_sorted: true }, true)).flags,
        6
    );
}
