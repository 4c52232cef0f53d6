//! The project's own chores: `cargo xtask test`, `cargo xtask fuzz`, `cargo xtask miri`, `cargo
//! xtask python`, `cargo xtask peers`, `cargo xtask platforms`, `cargo xtask requirements`, `cargo
//! xtask lint`, `cargo xtask bench`, `cargo xtask book`, `cargo xtask browser`, `cargo xtask dist`,
//! `cargo xtask gpu-bundle`.
//!
//! This file reads the command line and nothing else. [`tiers`] runs tests, [`fuzz`] fuzz targets,
//! [`miri`] those under Miri, [`browser`] those in a browser, [`python`] those of the Python
//! package, [`platforms`] those on other targets, [`setup`] finds and installs the tools they use,
//! [`peers`] those that are other implementations of Arrow, [`released`] checks what released
//! packages make of the interface, [`requirements`] and [`lint`] look at the tree, [`bench`]
//! measures, [`bundle`] packs what runs on a machine with a GPU, [`book`] builds the book, [`dist`]
//! makes and proves the packages, and [`shell`] runs the commands of all of them.

mod bench;
mod book;
mod browser;
mod bundle;
mod dist;
mod fuzz;
mod lint;
mod miri;
mod oneapi;
mod peers;
mod platforms;
mod python;
mod released;
mod requirements;
mod setup;
mod shell;
mod tiers;

use std::process::ExitCode;

use tiers::When;

const USAGE: &str = "\
The project's own chores.

cargo xtask test [--setup] [--all | --everything | --only TIER]
    Run the tests and count them. The last line is the result, and is written to target/test-summary.txt.
    --setup       first install what is missing: Debian packages (as root or through sudo),
                  Python packages in target/peers and target/python; with --all also Rust toolchains and cargo-deny
    --all         also the tiers that take minutes; continuous integration runs these
    --everything  also the tiers that take long and rarely break; CONTRIBUTING.md says when they last ran
    --only TIER   this tier alone
    What needs a tool that is missing is skipped and the reason printed. With CI=true or
    ARROW_DEVICE_REQUIRE=all in the environment it is a failure, where the tool can be installed.

cargo xtask fuzz [TARGET] [--seconds N]
    Run one fuzz target, or each, for a while (15 seconds, unless told otherwise). Needs nightly Rust and
    cargo-fuzz.

cargo xtask miri [rest]
    Run the tests of the library under Miri, but for those that take long; with `rest` those alone.

cargo xtask platforms [rest]
    Check and test the library for other targets, in WebAssembly and under emulators, as far as their tools are
    there; with `rest` run those tests that take long, and no others.

cargo xtask browser
    Build the package for JavaScript in js, and run its tests in headless Chromium.

cargo xtask oneapi
    Run the tests of the oneAPI devices on the SYCL runtime in target/oneapi.

cargo xtask python [tensors | ray]
    Build the wheel of the Python package and run its tests with the libraries in target/python/env; with
    `tensors` those with JAX and PyTorch alone, with `ray` those with Ray and Dask, in target/python/ray.

cargo xtask peers [WORD]
    Install released Python packages into target/released, run arrow-device-check on each, or on those functions
    whose name has the word in it, and compare what is found with the table in docs/peers.md, which
    ARROW_DEVICE_BLESS=1 in the environment writes.

cargo xtask requirements
    Print which test proves which requirement of docs/requirements.md and which guarantee of docs/safety.md, and
    fail where one is missing, or where an obligation of docs/safety.md is cited nowhere.

cargo xtask gpu-bundle [test]
    Build a folder, target/gpu-bundle, for a machine that has a GPU and no Rust: its run.sh runs the checks on the
    machine's devices, exchanges data with PyTorch, CuPy, JAX and pyarrow where its Python has them, measures copies,
    and writes one report as JSON. With `test`, run a copy of it on the simulated driver.

cargo xtask book [pages]
    Build the book, with the references of the interfaces in Rust, C and Python, into target/book: a folder of pages
    that need no network. With `pages`, without what rustdoc writes. Needs mdbook.

cargo xtask dist [rust | c | python | checker | npm]
    Make all that is released into target/dist, with checksums, and prove the packages from nothing but that folder;
    with a word, the crates, the library for C, the packages for Python (with the checker), the checker's wheels, or the
    package for JavaScript alone.

cargo xtask dist compare
    Compare the public interface of the crates with that of the last release, by cargo-semver-checks, which is
    built for that.

cargo xtask dist manifests
    Check that the crates compile with the oldest versions of other crates that their manifests allow, and with each
    feature and each two features. This is a part of `cargo xtask dist rust`, and takes most of its time.

cargo xtask bench [--quick] [--only WORKLOAD]
    Time all workloads beside the other implementations, which are fetched first, and say which aims are reached.
    The whole goes into benchmarks/results, with pictures; a part of it, or a quick look, into target/bench.

cargo xtask bench --gate
    Count allocations, instructions, driver calls, bytes moved and waits, and fail where one is more than
    benchmarks/counts.json has or than was promised. ARROW_DEVICE_BLESS=1 in the environment writes that file.

cargo xtask lint [STEP]
    Check format, clippy, documentation, dependencies, requirements, housekeeping, the width of comments, that
    proofs stand alone, that a type name has one definition in a package, the list of decisions, and the sources of
    the book; with STEP, that alone.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        [] | ["help" | "-h" | "--help"] | [_, "-h" | "--help"] => {
            print_help();
            Ok(())
        }
        ["test", words @ ..] => test_options(words).and_then(|options| tiers::test(&options)),
        ["fuzz", options @ ..] => {
            fuzz_wish(options).and_then(|(target, seconds)| fuzz::fuzz(target, seconds))
        }
        ["oneapi"] => oneapi::test(),
        ["browser"] => browser::test(),
        ["python"] => python::test(python::Part::Package),
        ["python", "tensors"] => python::test(python::Part::Tensors),
        ["python", "ray"] => python::test(python::Part::Ray),
        ["miri"] => miri::test(miri::MiriPart::Short),
        ["miri", "rest"] => miri::test(miri::MiriPart::Rest),
        ["platforms"] => platforms::test(platforms::PlatformPart::Short),
        ["platforms", "rest"] => platforms::test(platforms::PlatformPart::Rest),
        ["peers"] => released::check(""),
        ["peers", part] => released::check(part),
        ["requirements"] => requirements::check(),
        ["lint"] => lint::lint(None),
        ["lint", step] => lint::lint(Some(step)),
        ["bench", options @ ..] => bench::Wish::parse(options).and_then(|wish| bench::bench(&wish)),
        ["book"] => book::build(book::Extent::All),
        ["book", "pages"] => book::build(book::Extent::Pages),
        ["dist"] => dist::dist(dist::Packages::All),
        ["dist", "compare"] => dist::compare(),
        ["dist", "manifests"] => dist::manifests(),
        ["dist", "c"] => dist::dist(dist::Packages::C),
        ["dist", "checker"] => dist::dist(dist::Packages::Checker),
        ["dist", "npm"] => dist::dist(dist::Packages::Npm),
        ["dist", "python"] => dist::dist(dist::Packages::Python),
        ["dist", "rust"] => dist::dist(dist::Packages::Rust),
        ["gpu-bundle"] => bundle::bundle(),
        ["gpu-bundle", "test"] => bundle::test(),
        other => Err(format!("not understood: `{}`; `cargo xtask` lists what is", other.join(" "))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            if !problem.is_empty() {
                eprintln!("{problem}");
            }
            ExitCode::FAILURE
        }
    }
}

fn test_options(words: &[&str]) -> Result<tiers::TestOptions, String> {
    let mut options = tiers::TestOptions::default();
    let mut words = words.iter();
    while let Some(option) = words.next() {
        match *option {
            "--setup" => options.setup = true,
            "--all" => options.level = options.level.max(When::All),
            "--everything" => options.level = When::Everything,
            "--only" => {
                let name = words.next().ok_or("--only needs the name of a tier")?;
                options.only = Some((*name).to_owned());
            }
            other => return Err(format!("`cargo xtask test` has no option `{other}`")),
        }
    }
    if options.level != When::Always && options.only.is_some() {
        return Err("--only excludes --all and --everything".to_owned());
    }
    Ok(options)
}

/// Which target, if not all, and for how many seconds.
fn fuzz_wish<'a>(options: &[&'a str]) -> Result<(Option<&'a str>, u32), String> {
    let (mut target, mut seconds) = (None, fuzz::SECONDS);
    let mut options = options.iter();
    while let Some(option) = options.next() {
        if *option == "--seconds" {
            let number = options.next().and_then(|number| number.parse().ok());
            seconds = number.ok_or("--seconds needs a number")?;
        } else if target.replace(*option).is_some() || option.starts_with('-') {
            return Err(format!("`cargo xtask fuzz` has no option `{option}`"));
        }
    }
    Ok((target, seconds))
}

fn print_help() {
    print!("{USAGE}");
    println!("\nThe tiers of tests:");
    for tier in tiers::TIERS {
        println!("    {:<22} {:<12} {}", tier.name, tier.when.option(), tier.purpose);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_test_are_understood_in_any_order() {
        let wish = test_options(&["--all", "--setup"]).unwrap();
        assert!(wish.setup && wish.level == When::All && wish.only.is_none());
        for options in
            [&["--all", "--everything"][..], &["--everything", "--all"], &["--everything"]]
        {
            assert_eq!(test_options(options).unwrap().level, When::Everything, "{options:?}");
        }
        let wish = test_options(&["--only", "miri"]).unwrap();
        assert_eq!(wish.only.as_deref(), Some("miri"));
    }

    #[test]
    fn the_options_of_fuzz_are_understood_in_any_order() {
        assert_eq!(fuzz_wish(&[]), Ok((None, fuzz::SECONDS)));
        assert_eq!(fuzz_wish(&["--seconds", "3", "data"]), Ok((Some("data"), 3)));
        assert_eq!(fuzz_wish(&["data", "--seconds", "3"]), Ok((Some("data"), 3)));
        for options in [&["--seconds"][..], &["data", "arrays"], &["--second", "3"]] {
            assert!(fuzz_wish(options).is_err(), "{options:?}");
        }
    }

    #[test]
    fn options_that_make_no_sense_are_refused() {
        let with_only = [&["--all", "--only", "miri"][..], &["--only", "miri", "--everything"]];
        for options in [&["--al"][..], &["--only"], &["miri"]].into_iter().chain(with_only) {
            assert!(test_options(options).is_err(), "{options:?}");
        }
    }
}
