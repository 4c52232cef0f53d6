//! `cargo xtask miri`: the structs and the library under Miri, and short sequences of safe calls.
//!
//! The interpreter uses one core and is a hundred times slower than a processor. So unit tests and
//! test programs run beside each other, and the tests of [`REST`] only run where they are asked for
//! by `cargo xtask miri rest`. A test that is new runs without being asked for, and no test is in
//! neither part.
//!
//! Test programs are told the whole names of tests. If they were told parts of names, they would
//! look for each part in the name of each test, which took the interpreter minutes for each
//! program. The whole names are found in the sources ([`tests_in`]).

use std::path::Path;

use crate::shell;

/// Leaks are errors under Miri without being asked for. Files may be read, and addresses must come
/// from pointers.
const FLAGS: &str = "-Zmiri-strict-provenance -Zmiri-disable-isolation";

/// A caught panic prints its place without a backtrace, which takes the interpreter a minute.
const VARIABLES: &[(&str, &str)] = &[("MIRIFLAGS", FLAGS), ("RUST_BACKTRACE", "0")];

/// Parts of the paths of tests of safe code over bytes, which take an interpreter many minutes.
const NEVER: &[&str] = &[
    "schema::tests",
    "schema::display::tests",
    "children_are_those_of_the_c_struct_in_its_order",
    "metadata::tests",
    "values::tests::comparing",
    "values::tests::shared",
    "values::tests::showing",
    "arrays_of_a_few_bytes_take_no_more_than_their_bound",
    "every_part_of_every_type_reads_as_that_part",
    "any_content_is_read_or_refused",
    "a_type_of_any_size_has_a_short_text",
    "a_missing_or_different_convention_is_found_out",
    "device::staged::tests",
];

/// Parts of the paths of tests that take ten seconds to minutes each, and lead to unsafe code by
/// ways that shorter tests take too.
const REST: &[&str] = &[
    // What is counted is no matter of memory; the same exchanges are run by tests that look at
    // their values.
    "allocation",
    // Values are safe code over bytes, but for one reading of aligned slices, which
    // `every_type_reads_the_same_after_it_went_through_c` runs for every type.
    "values::tests::hostile",
    "values::tests::refused",
    "every_type_reads_as_it_was_built",
    "every_type_can_be_empty",
    "a_part_of_a_part_of_every_type",
    "built_buffers_are_aligned",
    "every_null_is_counted",
    // Each goes through every type, or hundreds of random trees, where others take one of each
    // kind.
    "all_parts_come_out_as_they_went_in",
    "a_format_says_the_same_whatever_was_read_before",
    "what_is_plain_is_what_any_tensor_would_be",
    "every_type_comes_back_in_every_layout",
    "arrays_and_tensors_have_the_same_values",
    "columns_of_several_kinds_beside_each_other",
    "every_sample_and_its_slices_come_back",
    "with_anything_wrong_is_refused_at_its_place",
    "every_array_is_imported_and_exported_as_it_is",
    "every_array_is_handed_on_as_it_is",
    "every_type_and_every_extension_of_it_comes_out_as_it_went_in",
    "arrays_of_every_type_travel_in_streams",
    "every_sample_is_fetched_by_as_many_copies",
    "device_types_and_ids_are_carried_whole",
    "what_is_odd_and_right_is_read",
    "a_leaf_that_the_limits_accept_keeps_its_rule",
    "nothing_is_read_through_a_buffer_pointer",
    "names_metadata_and_flags_come_out_as_they_went_in",
    "each_column_of_a_tree_that_came_back",
    "buffers_of_arrays_without_elements_may_have_no_bytes",
    "an_array_without_elements_is_exported_with_its_one_offset",
    // Many of what other tests do a few times.
    "ten_thousand_copies_go_on_at_once",
    "copies_wait_where_the_device_takes_less_than_comes",
    "a_polled_copy_comes_back_where_the_device_takes_less",
    "a_read_through_many_streams_that_move_gives",
    "what_nests_too_deep_counts_as_shared",
    "that_went_out_and_in_many_times",
    "that_went_out_and_in_a_million_times",
    "lengths_of_what_came_back_very_often",
    "blocks_that_are_released_on_another_thread_come_home",
    "whose_buffer_is_kept_by_another_array_many_times",
    "a_poll_looks_at_few_of_the_arrays_on_their_way",
    "elements_come_one_array_after_the_other",
    "the_buffers_of_a_result_have_no_more_bytes_than_were_asked_for",
    "a_tensor_of_plain_numbers_is_the_one_that_the_plan_makes",
    "a_column_of_a_batch_is_settled_as_it_is_alone",
    "bits_are_counted_the_same_through_windows_of_all_sizes",
    "a_buffer_that_many_queues_write_is_not_told_all_of_them_again",
    "data_that_passes_through_the_host_uses_the_drivers_memory",
    "a_device_that_is_lost_meanwhile_ends_the_copy",
    "offsets_of_a_column_on_the_host_are_not_trusted",
    "a_handle_that_is_refused_leaves_none_behind",
    "a_peer_of_the_same_number_may_be_of_another_runtime",
    "places_between_units_are_read_without_a_wait",
    "copies_on_many_queues_do_not_each_ask_about_all_queues",
    "the_host_waits_once_and_once_more_for_each_level",
    "events_are_joined_in_less_than_the_square",
    "an_array_keeps_nothing_of_the_queues",
    // Each panic takes a second, and comes before any unsafe code.
    "a_number_that_names_no_node_of",
    "numbers_that_name_nothing_are_found",
    // The testkit's own peer against the testkit.
    "another_right_peer_passes_too",
    // Children that are moved out in every order: `a_child_that_was_moved_out_keeps_its_own_column`
    // and the callbacks that a consumer puts into children take the same ways.
    "the_root_and_what_was_moved_out_of_it_are_released_at_once",
    "children_of_children_and_dictionaries_are_released_in_any_order",
    // The library judged by the testkit, whose consumer is judged in a short time.
    "the_library_is_a_right_relay",
    "the_library_is_a_right_producer",
    "keeps_to_the_rules",
    // Hundreds of columns and names, where others take a few.
    "names_of_any_length_and_columns_of_any_number",
    // Safe code over types.
    "the_questions_part_the_types",
    "a_type_that_c_cannot_say_is_refused",
    "a_peer_is_named_by_a_trait",
    "every_kind_of_error_has_its_code_on_both_sides",
    // Safe code: what validation says of bytes, which runtime memory is of, a table of addresses,
    // and which parts a copy fills.
    "every_sample_is_valid_and_so_is_each_of_its_slices",
    "keys_point_into_the_dictionary",
    "layout_is_checked_for_what_was_built_here",
    "list_views_stay_within_the_child",
    "list_offsets_stay_within_the_child",
    "run_ends_of_every_width_are_read",
    "parts_on_different_devices_do_not_become_one_array",
    "any_device_will_do_and_an_event_only_where_there_are_events",
    "every_device_type_has_a_convention_and_the_header_says",
    "keys_and_entries_of_a_map_are_not_null",
    "run_ends_are_positive_increase_and_cover",
    "views_are_resolved",
    "type_ids_are_those_of_the_union",
    "dense_offsets_are_within_the_child",
    "the_deepest_tree_is_64_levels",
    "whatever_the_bytes_are_what_is_valid_can_be_read",
    "an_array_is_put_together_from_the_memory_of_one_runtime",
    "each_place_is_found_again_after_the_table_grew",
    "bytes_that_change_in_many_ways",
    "recycled_memory_that_is_divided_as_before",
    "what_is_left_is_found_where_it_stands",
    "the_blocks_of_two_drivers_are_given_out_as_a_search",
];

/// The test programs, in parts that take about as long as each other. Each program is in one.
const PROGRAMS: &[&str] = &["--test=a*", "--test=[!a]*", "--lib"];

/// The program with short sequences of safe calls, which run on software devices.
const SEQUENCES: &[&str] = &["--package=arrow-device-testkit", "--test=generated"];

/// Which tests are run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum MiriPart {
    /// All but the other part.
    Short,
    /// Those of [`REST`], and documentation tests.
    Rest,
}

/// Runs the tests of one part. They print the lines that count them.
pub(crate) fn test(part: MiriPart) -> Result<(), String> {
    let cargo = ["cargo", "+nightly", "miri", "test"];
    // A pattern of test programs names those of features as well.
    let packages = [
        "--package=arrow-device-abi",
        "--package=arrow-device",
        "--features=arrow-device/serde,arrow-device/tracing",
        "--no-fail-fast",
    ];
    let sequences = [&cargo[..], SEQUENCES].concat();
    shell::run(&[&cargo[..], &packages, &["--lib", "--test=*", "--no-run"]].concat(), VARIABLES)?;
    shell::run(&[&sequences[..], &["--no-run"]].concat(), VARIABLES)?;
    let all = all_tests()?;
    let filters = filters(part, &all);
    let run = |targets| [&cargo[..], &packages, &[targets, "--"], &filters].concat();
    let mut commands: Vec<_> = PROGRAMS.iter().map(|targets| run(targets)).collect();
    commands.push(match part {
        MiriPart::Short => [&sequences[..], &["--", "short_sequences"]].concat(),
        MiriPart::Rest => [&cargo[..], &packages, &["--doc"]].concat(),
    });
    shell::run_beside_each_other(&commands, VARIABLES)
}

/// What the test programs are told. A test that is named and skipped is skipped.
fn filters(part: MiriPart, all: &[String]) -> Vec<&str> {
    let skipped = |parts: &[&str]| -> Vec<&str> {
        named(parts, all).into_iter().flat_map(|name| ["--skip", name]).collect()
    };
    let rest = match part {
        MiriPart::Short => skipped(REST),
        MiriPart::Rest => named(REST, all),
    };
    [vec!["--exact"], rest, skipped(NEVER)].concat()
}

/// The tests whose paths have one of these parts.
fn named<'all>(parts: &[&str], all: &'all [String]) -> Vec<&'all str> {
    let is_named = |name: &&str| parts.iter().any(|part| name.contains(part));
    all.iter().map(String::as_str).filter(is_named).collect()
}

/// The paths of all tests of the two packages, as their test programs name them.
fn all_tests() -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for file in shell::project_files(&["rs"])? {
        for package in ["crates/arrow-device", "crates/arrow-device-abi"] {
            let of_tests = file.strip_prefix(Path::new(package).join("tests"));
            let of_library = file.strip_prefix(Path::new(package).join("src"));
            let module = match (of_tests, of_library) {
                // The first step is the test program.
                (Ok(file), _) => modules_of(file).into_iter().skip(1).collect(),
                (_, Ok(file)) => modules_of(file),
                _ => continue,
            };
            all.extend(tests_in(&shell::read(&file)?, module));
        }
    }
    Ok(all)
}

/// The modules that lead to a file.
fn modules_of(file: &Path) -> Vec<String> {
    let steps = file.with_extension("");
    let mut steps: Vec<String> =
        steps.iter().map(|step| step.to_string_lossy().into_owned()).collect();
    steps.pop_if(|last| ["lib", "main", "mod"].contains(&last.as_str()));
    steps
}

/// The paths of the tests of one formatted source. These modules lead to the source.
fn tests_in(source: &str, mut modules: Vec<String>) -> Vec<String> {
    let (mut found, mut opened, mut is_test) = (Vec::new(), Vec::new(), false);
    for line in source.lines() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if let Some(name) = module_opened(text) {
            modules.push(name.to_owned());
            opened.push(indent);
        } else if text == "}" && opened.pop_if(|at| *at == indent).is_some() {
            modules.pop();
        } else if text == "#[test]" {
            is_test = true;
        } else if let Some((name, _)) =
            text.strip_prefix("fn ").and_then(|text| text.split_once('('))
            && std::mem::take(&mut is_test)
        {
            let path = modules.iter().map(String::as_str).chain([name]);
            found.push(path.collect::<Vec<_>>().join("::"));
        }
    }
    found
}

/// The name of the module that a line opens.
fn module_opened(line: &str) -> Option<&str> {
    let (visibility, name) = line.strip_suffix(" {")?.split_once("mod ")?;
    matches!(visibility, "" | "pub " | "pub(crate) " | "pub(super) ").then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_part_skips_the_other_runs() {
        let all = all_tests().unwrap();
        let (short, rest) = (filters(MiriPart::Short, &all), filters(MiriPart::Rest, &all));
        let skipped = named(NEVER, &all).len();
        let run: Vec<_> = rest.iter().skip(1).take_while(|word| **word != "--skip").collect();
        assert_eq!(rest.len(), 1 + run.len() + 2 * skipped);
        assert_eq!(short.len(), 1 + 2 * run.len() + 2 * skipped);
        for (skip, run) in short.iter().skip(2).step_by(2).zip(&run) {
            assert_eq!(skip, *run);
        }
    }

    /// A name that no test has any more would make the short part long.
    #[test]
    fn every_name_is_that_of_a_test() {
        let all = all_tests().unwrap();
        for name in REST.iter().chain(NEVER) {
            assert!(!named(&[name], &all).is_empty(), "{name}");
        }
    }

    #[test]
    fn tests_are_named_as_their_program_names_them() {
        let source = "
fn helper() {}

#[test]
#[should_panic]
fn one() {
    let closure = || {
    };
}

pub(crate) mod tests {
    mod inner {
        #[test]
        fn two() {
            if true {
            }
        }
    }

    #[test]
    fn three() {}
}

#[test]
fn four() {}
";
        let path = |file: &str| modules_of(Path::new(file));
        let found = tests_in(source, path("array/mod.rs"));
        let expected =
            ["array::one", "array::tests::inner::two", "array::tests::three", "array::four"];
        assert_eq!(found, expected);
        assert_eq!(path("lib.rs"), [""; 0]);
        assert_eq!(path("copy/plan/walk.rs"), ["copy", "plan", "walk"]);
    }
}
