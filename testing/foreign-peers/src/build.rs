//! Finds the peers, compiles what calls them, and keeps what it built under the hash of everything
//! that went into it.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

pub use arrow_device_testkit::peers::folder;
use arrow_device_testkit::peers::packages;

/// A compiler with its options, and the files it is given.
#[derive(Debug)]
pub struct Build {
    name: &'static str,
    compiler: String,
    options: Vec<String>,
    sources: Vec<(PathBuf, Vec<String>)>,
    inputs: Vec<PathBuf>,
    links: Vec<String>,
}

impl Build {
    /// A shared library of this name.
    pub fn new(name: &'static str, variable: &str, compiler: &str, options: &[&str]) -> Self {
        let compiler = env::var(variable).unwrap_or_else(|_| compiler.to_owned());
        let options = ["-fPIC", "-pthread"].iter().chain(options).map(|&o| o.into()).collect();
        Self { name, compiler, options, sources: vec![], inputs: vec![], links: vec![] }
    }

    /// Also this folder of headers. What is said about a foreign one is not heard.
    pub fn include(mut self, folder: &Path, is_foreign: bool) -> Self {
        let option = if is_foreign { "-isystem" } else { "-I" };
        self.options.extend([option.into(), folder.display().to_string()]);
        self
    }

    /// Also this source, with options of its own.
    pub fn source(mut self, file: PathBuf, options: &[&str]) -> Self {
        self.inputs.push(file.clone());
        self.sources.push((file, options.iter().map(|&option| option.into()).collect()));
        self
    }

    /// Also a header, whose change means another library.
    pub fn depends_on(mut self, file: PathBuf) -> Self {
        self.inputs.push(file);
        self
    }

    /// Linked to this library, which is found there again when it is loaded.
    pub fn link(mut self, library: &Path) -> Self {
        let folder = library.parent().expect("a library is in a folder").display();
        self.links.extend([library.display().to_string(), format!("-Wl,-rpath,{folder}")]);
        self
    }

    /// Compiles all sources at once and links them, unless that was done before. Nothing may be
    /// said about them.
    pub fn run(&self) -> PathBuf {
        let folder = folder().join("built");
        let library = folder.join(format!("{}-{:016x}.so", self.name, self.hash()));
        if library.exists() {
            return library;
        }
        // Several threads may want the same library at once.
        static BUILDS: AtomicUsize = AtomicUsize::new(0);
        let build = BUILDS.fetch_add(1, Ordering::Relaxed);
        let scratch = folder.join(format!("{}-{}-{build}", self.name, std::process::id()));
        fs::create_dir_all(&scratch).expect("the target folder is writable");
        let objects: Vec<PathBuf> =
            (0..self.sources.len()).map(|index| scratch.join(format!("{index}.o"))).collect();
        let running: Vec<Child> = self
            .sources
            .iter()
            .zip(&objects)
            .map(|((source, options), object)| {
                let mut command = Command::new(&self.compiler);
                command.args(&self.options).args(options).arg("-c").arg(source);
                command.arg("-o").arg(object).stdout(Stdio::piped()).stderr(Stdio::piped());
                command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"))
            })
            .collect();
        running.into_iter().for_each(|child| finish(&self.compiler, child));
        let linked = scratch.join("linked.so");
        let mut command = Command::new(&self.compiler);
        command.args(["-shared", "-pthread", "-Wl,-z,nodelete", "-Wl,-z,defs", "-o"]).arg(&linked);
        command.args(&objects).args(&self.links).stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(&self.compiler, command.spawn().expect("it compiled, so it links"));
        fs::rename(&linked, &library).expect("the target folder is writable");
        fs::remove_dir_all(&scratch).expect("the target folder is writable");
        library
    }

    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let version = Command::new(&self.compiler).arg("--version").output();
        version.expect("there is a compiler").stdout.hash(&mut hasher);
        (&self.options, &self.sources, &self.links).hash(&mut hasher);
        for input in &self.inputs {
            let bytes = fs::read(input);
            bytes.unwrap_or_else(|error| panic!("{}: {error}", input.display())).hash(&mut hasher);
        }
        hasher.finish()
    }
}

fn finish(compiler: &str, child: Child) {
    let output = child.wait_with_output().expect("a compiler ends");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler}: {}\n{text}", output.status);
    assert!(text.is_empty(), "{compiler} has something to say:\n{text}");
}

/// A file of this crate.
pub fn here(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

/// The folder of the C headers of this project's crate.
pub fn headers(of: &str) -> PathBuf {
    here("../../crates").join(of).join("include")
}

/// The version that a peer is pinned to.
pub fn version(of: &str) -> String {
    let pins = [include_str!("../requirements.txt"), include_str!("../sources.txt")].concat();
    let pin = pins.lines().find_map(|line| line.strip_prefix(of)?.strip_prefix("=="));
    pin.expect("a pinned peer").trim().to_owned()
}

/// The package folder of an installed wheel.
pub fn wheel(name: &str) -> Option<PathBuf> {
    let about = format!("{name}-{}.dist-info", version(name));
    let mut packages = packages().into_iter();
    packages.find(|packages| packages.join(&about).is_dir()).map(|found| found.join(name))
}

/// The folder of an unpacked source distribution.
pub fn unpacked(name: &str) -> Option<PathBuf> {
    let found = folder().join("sources").join(format!("{name}-{}", version(name)));
    found.is_dir().then_some(found)
}

/// Whether there is a program of this name, as the variable says or as it is called.
pub fn has_compiler(variable: &str, program: &str) -> bool {
    let program = env::var(variable).unwrap_or_else(|_| program.to_owned());
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The only file of a folder whose name begins so.
pub fn file_that_begins(folder: &Path, beginning: &str) -> PathBuf {
    let files = fs::read_dir(folder).expect("the folder is there").flatten();
    let mut found = files.map(|file| file.path()).filter(|path| {
        path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with(beginning))
    });
    found.next().unwrap_or_else(|| panic!("no {beginning}* in {}", folder.display()))
}
