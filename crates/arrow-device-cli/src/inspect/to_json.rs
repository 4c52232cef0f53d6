//! The survey as JSON.

use arrow_device::Extent;

use super::memory::{MemoryBlock, MemoryMap, Region};
use super::survey::{Buffer, Event, Survey, SurveyedArray};
use crate::json::Json;

pub(super) fn all(source: &str, surveys: &[Survey], memory: &MemoryMap) -> Json {
    Json::Object(vec![
        ("source", source.into()),
        ("batches", Json::list(surveys, batch)),
        ("memory", Json::list(&memory.regions, region)),
    ])
}

fn batch(survey: &Survey) -> Json {
    Json::Object(vec![
        ("device", survey.device.to_string().into()),
        ("device_type", i64::from(survey.device.device_type.0).into()),
        ("device_id", survey.device.id.into()),
        ("event", survey.event.as_ref().map_or(Json::Null, event)),
        ("root", node(&survey.root)),
    ])
}

fn event(event: &Event) -> Json {
    Json::Object(vec![
        ("address", hex(event.address)),
        ("kind", event.kind.into()),
        ("has_passed", Json::or_null(event.has_passed)),
    ])
}

fn node(of: &SurveyedArray) -> Json {
    Json::Object(vec![
        ("name", of.name.clone().into()),
        ("path", of.path.clone().into()),
        ("type", of.data_type.clone().into()),
        ("rows", of.rows.into()),
        ("offset", of.offset.into()),
        ("nulls", Json::or_null(of.nulls)),
        ("buffers", Json::list(&of.buffers, buffer)),
        ("below", Json::list(&of.below, node)),
    ])
}

fn buffer(of: &Buffer) -> Json {
    if of.address == 0 {
        return Json::Object(vec![("kind", of.kind.clone().into()), ("address", Json::Null)]);
    }
    let mut members = vec![
        ("kind", of.kind.clone().into()),
        ("address", hex(of.address)),
        ("device", of.device.to_string().into()),
    ];
    members.extend(extent(of.extent));
    Json::Object(members)
}

/// Bytes, and whether that is all of them. Both are null where only the device knows.
fn extent(of: Extent) -> [(&'static str, Json); 2] {
    let bytes = Some(of.at_least()).filter(|_| of != Extent::Unknown);
    let is_exact = bytes.map(|_| matches!(of, Extent::Exact(_)));
    [("bytes", Json::or_null(bytes)), ("is_exact", Json::or_null(is_exact))]
}

fn region(of: &Region) -> Json {
    Json::Object(vec![
        ("device", of.device.to_string().into()),
        ("has_handles", of.has_handles.into()),
        ("bytes", of.bytes().into()),
        ("blocks", Json::list(&of.blocks, block)),
    ])
}

fn block(of: &MemoryBlock) -> Json {
    let mut members = vec![("address", hex(of.address))];
    members.extend(extent(of.extent));
    members.push((
        "users",
        Json::list(&of.users, |user| {
            Json::Object(vec![
                ("batch", user.batch.into()),
                ("path", user.path.clone().into()),
                ("kind", user.kind.clone().into()),
            ])
        }),
    ));
    Json::Object(members)
}

/// As text, because JSON's numbers are too short for some readers.
fn hex(address: usize) -> Json {
    Json::Text(format!("{address:#x}"))
}
