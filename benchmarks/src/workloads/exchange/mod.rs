//! Arrays through the C structs: export, import, release.
//!
//! All sides have the same buffers ([`data`]), and each takes the best way that its own users have.
//! What differs: arrow-rs, Arrow C++ and polars-arrow make array objects of what they import,
//! nanoarrow a view that it can use again, this library an array that is a number in a table; so
//! "import and get at columns" asks all of them for the columns. nanoarrow has no batches of its
//! own that others could share: its exports keep nothing alive here, which is to its advantage.

#[cfg(feature = "peers")]
mod arrow_rs;
mod at_once;
mod counted;
mod data;
mod from_arrow_rs;
#[cfg(feature = "peers")]
mod native;
mod ours;
mod party;
#[cfg(feature = "peers")]
mod polars_arrow;
#[cfg(all(test, feature = "peers"))]
mod tests;

pub(super) use counted::COUNTED;

use crate::case::Case;
use data::Data;
use ours::Ours;

/// Columns of the batches.
const COLUMNS: [u64; 4] = [1, 10, 100, 1000];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let flat = ["int64", "utf8", "utf8view", "nested"].map(Data::flat);
    let batches = COLUMNS.map(Data::batch);
    let wide = Data::batch(10_000);
    let mixed = Data::mixed(1000);
    for data in flat.iter().chain(&batches).chain([&mixed]) {
        producers(&mut cases, data);
        consumers(&mut cases, data);
    }
    producers(&mut cases, &wide);
    let data = Data::batch(100);
    #[cfg(feature = "peers")]
    matrix(&mut cases, &data);
    for (shape, threads) in [("batch", 2), ("batch, one thread", 1)] {
        cases.push(party::contended(Ours::Imported, &data, shape, threads));
        cases.push(party::contended(Ours::Built, &data, shape, threads));
        #[cfg(feature = "peers")]
        {
            cases.push(party::contended(arrow_rs::ArrowRs, &data, shape, threads));
            cases.push(party::contended(polars_arrow::PolarsArrow, &data, shape, threads));
            let native = [native::arrow_cpp(), native::nanoarrow()].into_iter().flatten();
            cases.extend(native.map(|peer| party::contended(peer, &data, shape, threads)));
        }
    }
    for data in &batches {
        cases.push(from_arrow_rs::export(data));
        #[cfg(feature = "peers")]
        cases.push(arrow_rs::export_of_a_batch(data));
    }
    cases
}

fn producers(cases: &mut Vec<Case>, data: &Data) {
    cases.extend(party::as_producer(Ours::Imported, data));
    cases.extend(party::as_producer(Ours::Built, data));
    if data.is_batch {
        cases.extend(party::as_producer(Ours::ArrowRs, data));
    }
    #[cfg(feature = "peers")]
    {
        cases.extend(party::as_producer(arrow_rs::ArrowRs, data));
        cases.extend(party::as_producer(polars_arrow::PolarsArrow, data));
        let native = [native::arrow_cpp(), native::nanoarrow()].into_iter().flatten();
        cases.extend(native.flat_map(|peer| party::as_producer(peer, data)));
    }
}

fn consumers(cases: &mut Vec<Case>, data: &Data) {
    consumer(cases, Ours::Imported, data);
    #[cfg(feature = "peers")]
    {
        consumer(cases, arrow_rs::ArrowRs, data);
        consumer(cases, polars_arrow::PolarsArrow, data);
        let native = [native::arrow_cpp(), native::nanoarrow()].into_iter().flatten();
        native.for_each(|peer| consumer(cases, peer, data));
    }
}

/// Import, and export and import by the same.
fn consumer<P: party::Party>(cases: &mut Vec<Case>, party: P, data: &Data) {
    cases.extend(party::as_consumer(party, data));
    cases.push(party::pair(("export, import, release", data.shape), (party, party), data));
    if data.shape == "batch" && data.size == 1000 {
        cases.extend([1, 10, 1000].map(|columns| party::project(party, data, columns)));
    }
}

/// From each to each.
#[cfg(feature = "peers")]
fn matrix(cases: &mut Vec<Case>, data: &Data) {
    row(cases, Ours::Imported, "from arrow-device", data);
    row(cases, arrow_rs::ArrowRs, "from arrow-rs", data);
    row(cases, polars_arrow::PolarsArrow, "from polars-arrow", data);
    native::arrow_cpp().into_iter().for_each(|peer| row(cases, peer, "from Arrow C++", data));
    native::nanoarrow().into_iter().for_each(|peer| row(cases, peer, "from nanoarrow", data));
}

#[cfg(feature = "peers")]
fn row<P: party::Party>(cases: &mut Vec<Case>, from: P, shape: &'static str, data: &Data) {
    let key = ("from each to each", shape);
    cases.push(party::pair(key, (from, Ours::Imported), data));
    cases.push(party::pair(key, (from, arrow_rs::ArrowRs), data));
    cases.push(party::pair(key, (from, polars_arrow::PolarsArrow), data));
    let native = [native::arrow_cpp(), native::nanoarrow()].into_iter().flatten();
    cases.extend(native.map(|to| party::pair(key, (from, to), data)));
}
