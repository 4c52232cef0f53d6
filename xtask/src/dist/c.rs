//! The library for C and C++: an archive and two Debian packages, made of a copy of the sources,
//! the same bytes whichever folder they are made in.

use std::fs;
use std::path::{Path, PathBuf};

use super::{checker, contents, licences, rust};
use crate::shell;

/// The devices that the library is built with: all that there are.
pub(super) const FEATURES: &str = "vulkan,webgpu,oneapi,metal,cuda,rocm,hexagon,vpi,software";
/// Debian's name of this processor, and of the folder of its libraries.
const DEBIAN: (&str, &str) = if cfg!(target_arch = "aarch64") {
    ("arm64", "aarch64-linux-gnu")
} else {
    ("amd64", "x86_64-linux-gnu")
};

/// The oldest glibc that the Debian package of the shared library asks for.
const GLIBC: (u32, u32) = (2, 34);

/// The prefix in the file for pkg-config that is installed, and in the one of the archive, which
/// counts from where the file lies.
const INSTALLED: &str = "prefix=/usr\n";
const UNPACKED: &str = "prefix=${pcfiledir}/../../..\n";

/// Builds in two folders, compares the bytes, and packs one of them.
pub(super) fn make(
    source: &Path,
    work: &Path,
    folder: &Path,
    home: Option<&str>,
) -> Result<(), String> {
    let version = rust::version(source)?;
    let installed = [work.join("c-first"), work.join("c/again/deeper")];
    for root in &installed {
        super::empty(root)?;
        install(source, root, &version)?;
    }
    let [first, again] = &installed;
    let tree = |root: &Path| root.join("installed").display().to_string();
    let compare = ["diff", "--recursive", "--no-dereference", &tree(first), &tree(again)];
    shell::run(&compare, &[]).map_err(|_| "two builds of the library differ".to_owned())?;
    look_at_glibc(&first.join("installed"))?;
    contents::write(source, work, folder, &contents::LIBRARY)?;
    let others = licences::write(source, work, &contents::LIBRARY)?;
    archive(first, folder, &version, &others)?;
    debian(first, folder, &version, home, &others)
}

/// Copies the sources into a folder, builds there, and installs into `installed`.
fn install(source: &Path, root: &Path, version: &str) -> Result<(), String> {
    let package = root.join("source");
    copy_tree(source, &package)?;
    let installed = root.join("installed").display().to_string();
    let script = package.join("crates/arrow-device-capi/install.sh").display().to_string();
    let flags = rust::without_paths(&package, version);
    let target = root.join("target").display().to_string();
    let variables = [
        ("DESTDIR", installed.as_str()),
        ("RUSTFLAGS", flags.as_str()),
        ("CARGO_TARGET_DIR", target.as_str()),
    ];
    let libdir = format!("lib/{}", DEBIAN.1);
    shell::run(
        &["sh", &script, "--prefix", "/usr", "--libdir", &libdir, "--features", FEATURES],
        &variables,
    )
}

/// Copies all files below a folder.
fn copy_tree(from: &Path, to: &Path) -> Result<(), String> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).map_err(|error| shell::said(parent, &error))?;
    }
    shell::run(&["cp", "--recursive", &from.display().to_string(), &to.display().to_string()], &[])
}

/// Words for `tar`, by which the same files are the same bytes.
const SAME: [&str; 5] = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"];

/// Packs what was installed for people who unpack it wherever they like, with the licences.
fn archive(root: &Path, folder: &Path, version: &str, others: &Path) -> Result<(), String> {
    let tree = root.join("archive");
    super::empty(&tree)?;
    let installed = root.join("installed/usr/.").display().to_string();
    let copy = ["cp", "--recursive", "--no-dereference", "--preserve=mode", &installed];
    shell::run(&[&copy[..], &[&tree.display().to_string()]].concat(), &[])?;
    let package = tree.join("lib").join(DEBIAN.1).join("pkgconfig/arrow-device.pc");
    super::change(&package, |text| text.replacen(INSTALLED, UNPACKED, 1))?;
    copy_licences(&tree, "LICENSE", others)?;
    let file = folder.join(format!("arrow-device-{version}-{}.tar.gz", DEBIAN.1));
    let (file, tree) = (file.display().to_string(), tree.display().to_string());
    let name = format!("--transform=s,^\\.,arrow-device-{version},");
    let words = [
        "tar",
        "--create",
        "--use-compress-program=gzip -n",
        "--file",
        &file,
        "--directory",
        &tree,
        &name,
    ];
    shell::run(&[&words[..], &SAME, &["."]].concat(), &[])
}

/// Fails where a file that is loaded needs a newer glibc than its package asks for: what it needs
/// depends on the glibc of the machine that it is linked on.
fn look_at_glibc(installed: &Path) -> Result<(), String> {
    let loaded = |file: &PathBuf| file.to_string_lossy().contains(".so");
    for file in tree_of(installed)?.into_iter().filter(loaded) {
        let path = installed.join(file).display().to_string();
        let newest = checker::glibc_of(&path)?;
        if newest > GLIBC {
            let ((has, of), (asks, than)) = (newest, GLIBC);
            return Err(format!(
                "{path} needs glibc {has}.{of}, and its package asks for {asks}.{than}"
            ));
        }
    }
    Ok(())
}

/// Puts the project's licence into a folder, under this name, and those of others beside it.
fn copy_licences(folder: &Path, name: &str, others: &Path) -> Result<(), String> {
    let licence = shell::root().join("LICENSE");
    for (from, name) in [(licence.as_path(), name), (others, licences::FILE)] {
        let to = folder.join(name);
        fs::copy(from, &to).map_err(|error| shell::said(&to, &error))?;
    }
    Ok(())
}

/// The package of the shared library and that of the headers.
fn debian(
    root: &Path,
    folder: &Path,
    version: &str,
    home: Option<&str>,
    others: &Path,
) -> Result<(), String> {
    let major = version.split('.').next().unwrap_or_default();
    let (processor, triplet) = DEBIAN;
    let libraries = format!("usr/lib/{triplet}");
    // What the shared library has others load.
    let modules = format!("{libraries}/arrow-device");
    let shared = format!("libarrow-device{major}");
    let needs = format!("libc6 (>= {}.{}), libgcc-s1", GLIBC.0, GLIBC.1);
    let home = home.map(|of| format!("Homepage: {of}\n")).unwrap_or_default();
    let about = "Arrow data that lives on a device, shared without copying it";
    let control = |name: &str, section: &str, depends: &str, what: &str| {
        format!(
            "Package: {name}\nVersion: {version}\nArchitecture: {processor}\nSection: {section}\nPriority: optional\n\
             Maintainer: the arrow-device developers\n{home}Depends: {depends}\nDescription: {about}\n {what}\n"
        )
    };
    let packages = [
        (shared.clone(), control(&shared, "libs", &needs, "The shared library.")),
        (
            "libarrow-device-dev".to_owned(),
            control(
                "libarrow-device-dev",
                "libdevel",
                &format!("{shared} (= {version})"),
                "Headers, the static library, and files for pkg-config and CMake.",
            ),
        ),
    ];
    for (name, control) in packages {
        let tree = root.join("debian").join(&name);
        super::empty(&tree.join("DEBIAN"))?;
        let installed = root.join("installed");
        let is_shared = name == shared;
        for file in tree_of(&installed)? {
            let of_shared = file.starts_with(&modules)
                || file.starts_with(&libraries)
                    && file.file_name().is_some_and(|name| name.to_string_lossy().contains(".so."));
            if of_shared != is_shared {
                continue;
            }
            let (from, to) = (installed.join(&file), tree.join(&file));
            let parent = to.parent().unwrap_or(&tree).to_owned();
            fs::create_dir_all(&parent).map_err(|error| shell::said(&parent, &error))?;
            let words = ["cp", "--no-dereference", "--preserve=mode"];
            let paths = [from.display().to_string(), to.display().to_string()];
            shell::run(&[&words[..], &[&paths[0], &paths[1]]].concat(), &[])?;
        }
        let path = tree.join("DEBIAN/control");
        fs::write(&path, control).map_err(|error| shell::said(&path, &error))?;
        let doc = tree.join("usr/share/doc").join(&name);
        fs::create_dir_all(&doc).map_err(|error| shell::said(&doc, &error))?;
        copy_licences(&doc, "copyright", others)?;
        let file = folder.join(format!("{name}_{version}_{processor}.deb")).display().to_string();
        let build =
            ["dpkg-deb", "--root-owner-group", "--build", &tree.display().to_string(), &file];
        shell::run(&build, &[("SOURCE_DATE_EPOCH", "0")])?;
    }
    Ok(())
}

/// All files below a folder, relative to the folder.
fn tree_of(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let path = folder.display().to_string();
    let list = shell::output_of(&[
        "find", &path, "(", "-type", "f", "-o", "-type", "l", ")", "-printf", "%P\\n",
    ]);
    let list = list.ok_or_else(|| format!("`find` cannot list {path}"))?;
    let mut files: Vec<PathBuf> = list.lines().map(PathBuf::from).collect();
    files.sort();
    Ok(files)
}

/// Unpacks the archive into one folder and both Debian packages into another one, and builds and
/// runs a program of C and one of C++ against nothing else.
pub(super) fn prove(work: &Path, folder: &Path) -> Result<(), String> {
    prove_archive(work, folder)?;
    let root = work.join("c-root");
    super::empty(&root)?;
    for file in super::files_ending(folder, "deb")? {
        let (file, root) = (file.display().to_string(), root.display().to_string());
        shell::run(&["dpkg-deb", "--extract", &file, &root], &[])?;
    }
    let (_, triplet) = DEBIAN;
    let programs = Programs::against(&root, &format!("usr/lib/{triplet}"));
    programs.run_first_ones()?;
    prove_devices(&programs)
}

/// Uses the archive where it was unpacked.
fn prove_archive(work: &Path, folder: &Path) -> Result<(), String> {
    let root = work.join("c-archive");
    super::empty(&root)?;
    let version = rust::version(&shell::root())?;
    let file = folder.join(format!("arrow-device-{version}-{}.tar.gz", DEBIAN.1));
    let (file, to) = (file.display().to_string(), root.display().to_string());
    shell::run(&["tar", "--extract", "--gzip", "--file", &file, "--directory", &to], &[])?;
    let unpacked = root.join(format!("arrow-device-{version}"));
    let mut programs = Programs::against(&unpacked, &format!("lib/{}", DEBIAN.1));
    programs.sysroot = String::new();
    programs.run_first_ones()
}

/// Runs the installer of the packed crate, which lies beside the other packed crates in a folder
/// whose configuration has cargo take them, and builds and runs programs against what it installed.
pub(super) fn prove_packed_installer(crates: &Path, work: &Path) -> Result<(), String> {
    let package = format!("arrow-device-capi-{}", rust::version(&shell::root())?);
    // The folder lies in a checkout, whose workspace cargo takes where no other is nearer.
    let nearer = crates.join("Cargo.toml");
    fs::write(&nearer, format!("[workspace]\nmembers = [\"{package}\"]\nresolver = \"3\"\n"))
        .map_err(|error| shell::said(&nearer, &error))?;
    let script = crates.join(package).join("install.sh");
    let root = work.join("c-packed");
    super::empty(&root)?;
    let (target, to) = (work.join("target").display().to_string(), root.display().to_string());
    let variables = [("CARGO_TARGET_DIR", target.as_str()), ("DESTDIR", to.as_str())];
    let script = script.display().to_string();
    shell::run(&["sh", &script, "--prefix", "/usr"], &variables)?;
    Programs::against(&root, "usr/lib").run_first_ones()
}

/// Builds and runs programs against nothing but what was installed below a folder.
struct Programs {
    root: PathBuf,
    libraries: String,
    pkg_config: String,
    /// The folder below which the paths in the file for pkg-config lie.
    sysroot: String,
}

impl Programs {
    fn against(root: &Path, libraries: &str) -> Self {
        let libraries = root.join(libraries).display().to_string();
        let pkg_config = format!("{libraries}/pkgconfig");
        let sysroot = root.display().to_string();
        Self { root: root.to_owned(), libraries, pkg_config, sysroot }
    }

    /// Compiles the source with this command into a program with this name, and runs the program.
    fn run(&self, compiler: &str, source: &Path, name: &str) -> Result<(), String> {
        let variables = [
            ("PKG_CONFIG_LIBDIR", self.pkg_config.as_str()),
            ("PKG_CONFIG_SYSROOT_DIR", self.sysroot.as_str()),
            ("LD_LIBRARY_PATH", self.libraries.as_str()),
        ];
        let program = self.root.join(name).display().to_string();
        let build = format!(
            "{compiler} -o '{program}' '{}' $(pkg-config --cflags --libs arrow-device) && '{program}'",
            source.display()
        );
        shell::run(&["sh", "-euc", &build], &variables)?;
        println!("test result: ok. 1 passed; 0 failed; 0 ignored");
        Ok(())
    }

    /// The first programs of the documentation, in C and in C++.
    fn run_first_ones(&self) -> Result<(), String> {
        for (compiler, name) in [("cc", "first_program.c"), ("c++", "first_program.cpp")] {
            let source = shell::root().join("crates/arrow-device-capi/examples").join(name);
            self.run(compiler, &source, &name.replace('.', "_"))?;
        }
        Ok(())
    }
}

/// Has the library list its devices: all types of device are in the build, and what a simulator
/// loads is found where the package puts it.
fn prove_devices(programs: &Programs) -> Result<(), String> {
    let source = programs.root.join("devices.c");
    fs::write(&source, DEVICES).map_err(|error| shell::said(&source, &error))?;
    programs.run("cc -std=c11", &source, "devices")
}

/// Prints each row of the list of devices, and fails where a type is not in the build or where the
/// VPI module is not found.
const DEVICES: &str = r#"
#include <arrow_device/arrow_device.h>
#include <arrow_device/sim.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  struct ardev_device_info rows[64];
  size_t count = 0;
  memset(rows, 0, sizeof(rows));
  rows[0].struct_size = sizeof(rows[0]);
  struct ardev_error error;
  if (ardev_device_list(rows, 64, &count, &error)) return fprintf(stderr, "%s\n", error.message), 1;
  int failures = 0;
  for (size_t i = 0; i < count && i < 64; i++) {
    printf("%d:%lld %s\n", (int)rows[i].device_type, (long long)rows[i].device_id, rows[i].name);
    failures += rows[i].device_type == 0;
    failures += rows[i].device_type == ARROW_DEVICE_VPI && strstr(rows[i].name, "module") != NULL;
  }
  return failures;
}
"#;

/// What the recipe for Conan is tried with. Conan publishes no wheel.
const CONAN: &str = "conan==2.34.0";

/// Has Conan make a package of a checkout, of the shared and of the static library, and build and
/// run the first programs with each.
pub(super) fn prove_recipe(source: &Path, work: &Path) -> Result<(), String> {
    let tools = work.join("conan-tools");
    let python = tools.join("bin/python").display().to_string();
    let conan = tools.join("bin/conan").display().to_string();
    shell::run(&["python3", "-m", "venv", &tools.display().to_string()], &[])?;
    shell::run(&[&python, "-m", "pip", "install", "--quiet", CONAN], &[])?;
    let home = work.join("conan-home");
    super::empty(&home)?;
    let (home, target) =
        (home.display().to_string(), work.join("target-conan").display().to_string());
    let variables = [("CONAN_HOME", home.as_str()), ("CARGO_TARGET_DIR", target.as_str())];
    shell::run(&[&conan, "profile", "detect"], &variables)?;
    let recipe = source.join("packaging/conan").display().to_string();
    for shared in ["True", "False"] {
        let option = format!("arrow-device/*:shared={shared}");
        shell::run(&[&conan, "create", &recipe, "--options", &option], &variables)?;
        println!("test result: ok. 1 passed; 0 failed; 0 ignored");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recipe_exports_each_member_of_the_workspace() {
        let recipe = shell::read("packaging/conan/conanfile.py").unwrap();
        let manifest = shell::read("Cargo.toml").unwrap();
        let patterns: Vec<&str> = recipe.split('"').filter_map(|of| of.strip_suffix('*')).collect();
        let lines = manifest.lines().map(str::trim);
        let members = lines.filter_map(|line| line.strip_prefix('"')?.strip_suffix("\","));
        let members: Vec<&str> = members.filter(|of| shell::root().join(of).is_dir()).collect();
        assert!(members.contains(&"js/module") && members.contains(&"xtask"), "{members:?}");
        let is_left_out = |member: &&&str| {
            let folder = format!("{member}/");
            !patterns.iter().any(|pattern| folder.starts_with(pattern))
        };
        let left_out: Vec<_> = members.iter().filter(is_left_out).collect();
        assert!(left_out.is_empty(), "the recipe does not export {left_out:?}");
    }
}
