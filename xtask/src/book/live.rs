//! The page of the book on which the library itself runs: the demonstration of the package for
//! JavaScript, with everything that it loads.
//!
//! The demonstration keeps its place beside the package, so that it loads the same files in the
//! book as in `js`. Those that are built or installed there and not kept by git are the module of
//! WebAssembly and apache-arrow, with what apache-arrow loads.

use std::path::Path;

use super::files_below;
use crate::shell;

/// The folder of the package.
const PACKAGE: &str = "js";
/// The folder of the site.
const FOLDER: &str = "live";
/// The module.
const MODULE: &str = "arrow_device.wasm";
/// The packages of npm that the demonstration loads, each with the folder of its programs in the
/// package, and with the end of their names.
const LOADED: [(&str, &str, &str); 3] =
    [("apache-arrow", "", ".mjs"), ("flatbuffers", "mjs", ".js"), ("tslib", "", ".es6.mjs")];
/// How the names of licences begin, which go where the programs go.
const LICENCES: [&str; 2] = ["LICENSE", "NOTICE"];

/// Whether what the page needs is built and installed.
pub(super) fn is_there() -> bool {
    let package = shell::root().join(PACKAGE);
    let installed = |(name, ..): &(&str, _, _)| package.join("node_modules").join(name).is_dir();
    package.join(MODULE).is_file() && LOADED.iter().all(installed)
}

/// The title, the name and the text of the page.
pub(super) fn page() -> (&'static str, &'static str, String) {
    let text = format!(
        "# The library in your browser\n\n\
         [Open the demonstration](../{FOLDER}/demo/index.html). The library runs there, compiled to WebAssembly, beside\n\
         the WebGPU of your browser: a file of Arrow's is fetched and becomes GPUBuffers, a kernel reads the columns\n\
         where they lie, and the result comes back as Arrow. Nothing leaves your machine.\n\n\
         The demonstration needs:\n\n\
         * a browser with WebGPU, and a GPU that the browser may use. Without one, the page says so. Chromium uses the\n  \
           processor instead of a GPU with `--enable-unsafe-webgpu --use-webgpu-adapter=swiftshader`.\n\
         * a page from `https:` or from `localhost`, because browsers hide WebGPU from other pages, and load no modules\n  \
           from files. `python3 -m http.server --directory target/book` serves a book that was built on this machine.\n\n\
         [The package for JavaScript](javascript-package.md) says how a page of yours does the same.\n"
    );
    ("JavaScript: the library in your browser", "live.md", text)
}

/// Copies all that the demonstration loads into the site.
pub(super) fn add_to(site: &Path) -> Result<(), String> {
    let (package, to) = (shell::root().join(PACKAGE), site.join(FOLDER));
    for file in shell::project_files(&["css", "html", "js", "arrow"])? {
        let Ok(inside) = file.strip_prefix(PACKAGE) else { continue };
        let folder = inside.parent().unwrap_or(inside);
        if folder == Path::new("") || folder == Path::new("demo") {
            copy_file(&package, &to, inside)?;
        }
    }
    copy_file(&package, &to, Path::new(MODULE))?;
    for (name, folder, end) in LOADED {
        let programs = Path::new("node_modules").join(name);
        for file in files_below(&package.join(&programs))? {
            let inside = file.strip_prefix(&package).unwrap_or(&file);
            let of_program = inside.starts_with(programs.join(folder)) && is_named(inside, end);
            if of_program || is_licence(inside) {
                copy_file(&package, &to, inside)?;
            }
        }
    }
    Ok(())
}

fn is_named(path: &Path, end: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(end))
}

fn is_licence(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    LICENCES.iter().any(|begin| name.starts_with(begin))
}

fn copy_file(from: &Path, to: &Path, inside: &Path) -> Result<(), String> {
    let target = to.join(inside);
    if let Some(folder) = target.parent() {
        std::fs::create_dir_all(folder).map_err(|error| shell::said(folder, &error))?;
    }
    std::fs::copy(from.join(inside), &target)
        .map(|_| ())
        .map_err(|error| shell::said(&target, &error))
}
