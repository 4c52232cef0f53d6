//! The prototypes of the simulated functions are those of the vendors' headers.
//!
//! Two steps: the lines in `headers/*.c` are held against the headers by a C compiler, and the Rust
//! functions against those lines. The second needs nothing installed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use arrow_device_testkit::peers;
use arrow_device_testkit::required::skip;

/// What a parameter is to the calling convention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Word,
    Int,
    Byte,
}

#[test]
fn the_functions_of_cuda_are_declared_so_by_its_header() {
    let folders = cuda_headers();
    if folders.len() < 2 {
        return skip(
            "cuda-headers",
            "there is no cuda.h of two majors, in the wheels of headers.txt",
        );
    }
    for folder in folders {
        compile("cuda.c", &[&format!("-I{}", folder.display())]);
    }
}

#[test]
fn the_functions_of_hip_are_declared_so_by_its_header() {
    if !Path::new("/usr/include/hip/hip_runtime_api.h").exists() {
        return skip(
            "hip-headers",
            "there is no hip/hip_runtime_api.h, of Debian's libamdhip64-dev",
        );
    }
    compile("hip.c", &[]);
}

#[test]
fn the_functions_in_rust_are_those_of_the_lists() {
    for (vendor, alone) in [
        // The header gives this name to the second version.
        ("cuda", &["cuDevicePrimaryCtxRelease"][..]),
        // Newer than the header that is installed.
        ("hip", &["hipMemcpyBatchAsync", "hipStreamGetDevice"][..]),
    ] {
        let listed = listed(vendor);
        let mut exported = exported(vendor);
        for name in alone {
            assert!(exported.remove(*name).is_some(), "{name}");
        }
        assert_eq!(exported, listed);
    }
}

/// The folders with a `cuda.h`.
fn cuda_headers() -> Vec<PathBuf> {
    let places = peers::packages().into_iter().flat_map(|packages| {
        let nvidia = packages.join("nvidia");
        ["cuda_runtime", "cu13"].map(|package| nvidia.join(package).join("include"))
    });
    places.filter(|place| place.join("cuda.h").exists()).collect()
}

fn compile(file: &str, arguments: &[&str]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/headers");
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"])
        .args(arguments)
        .arg(folder.join(file))
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
}

/// The functions in the lists: the name, and what each parameter is.
fn listed(vendor: &str) -> BTreeMap<String, Vec<Class>> {
    let file = format!("tests/headers/{vendor}.c");
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("SAME("));
    let entry = |line: &str| {
        let (name, rest) = line.split_once(", ").unwrap();
        let parameters = rest.split_once('(').unwrap().1.trim_end_matches(')');
        let classes = parameters.split(", ").filter(|one| *one != "void").map(c_class);
        (name.to_owned(), classes.collect())
    };
    lines.map(entry).collect()
}

/// The assertions in the C files say that the types have these sizes.
fn c_class(parameter: &str) -> Class {
    const WORDS: &[&str] = &[
        "size_t",
        "unsigned long long",
        "CUdeviceptr",
        "CUhostFn",
        "hipDeviceptr_t",
        "hipHostFn_t",
    ];
    const HANDLES: &[&str] = &[
        "CUstream",
        "CUevent",
        "CUcontext",
        "CUmodule",
        "CUfunction",
        "CUmemoryPool",
        "CUmemGenericAllocationHandle",
        "CUgraph",
        "CUgraphExec",
        "hipStream_t",
        "hipEvent_t",
        "hipMemPool_t",
        "hipMemGenericAllocationHandle_t",
        "hipGraph_t",
        "hipGraphExec_t",
    ];
    match parameter {
        _ if parameter.contains('*') => Class::Word,
        _ if WORDS.contains(&parameter) || HANDLES.contains(&parameter) => Class::Word,
        "unsigned char" => Class::Byte,
        _ => Class::Int,
    }
}

/// The functions in the sources: the name, and what each parameter is.
fn exported(vendor: &str) -> BTreeMap<String, Vec<Class>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(vendor);
    let mut all = BTreeMap::new();
    for file in fs::read_dir(folder).unwrap().flatten() {
        let text = fs::read_to_string(file.path()).unwrap();
        for function in text.split("unsafe extern \"C\" fn ").skip(1) {
            let (name, rest) = function.split_once('(').unwrap();
            let parameters = rest.split_once("\n}").unwrap().0;
            let parameters = parameters.split_once(") -> ").unwrap().0;
            let types = parameters.split(',').filter_map(|one| one.split_once(": "));
            all.insert(name.to_owned(), types.map(|(_, kind)| rust_class(kind.trim())).collect());
        }
    }
    all
}

fn rust_class(kind: &str) -> Class {
    match kind {
        "usize" | "u64" | "Option<HostFunction>" => Class::Word,
        _ if kind.starts_with('*') => Class::Word,
        "c_int" | "c_uint" => Class::Int,
        _ => {
            assert_eq!(kind, "u8", "an unknown type of a parameter");
            Class::Byte
        }
    }
}
