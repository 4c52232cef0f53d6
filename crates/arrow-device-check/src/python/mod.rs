//! Peers in Python: the child is a Python process that runs a small script, which loads this
//! crate's shared library.

use std::env;
use std::path::{Path, PathBuf};

use crate::parent::Launcher;

/// The variable that names the shared library, where it is not beside the program and no flag names
/// it. The script reads this variable too.
const LIBRARY: &str = "ARROW_DEVICE_CHECK_LIBRARY";

const SCRIPT: &str = include_str!("child.py");

/// The flag that names the shared library.
const FLAG: &str = "--check-library";

/// Returns how to start a child for `module:function`, with the shared library that was named, if
/// one was.
pub(crate) fn launcher(
    program: &str,
    named: Option<&Path>,
    peer: &str,
) -> Result<Launcher, String> {
    let is_name = peer.split_once(':').is_some_and(|(module, function)| {
        !module.is_empty() && !function.is_empty() && !function.contains(':')
    });
    if !is_name {
        return Err(format!("`{peer}` is not of the form `module:function`"));
    }
    let library = library(named)?;
    Ok(Launcher {
        program: program.into(),
        arguments: vec!["-c".into(), SCRIPT.into()],
        variables: vec![(LIBRARY.into(), library.display().to_string())],
        remedy: "install Python 3, or name another program with --python-program",
    })
}

/// Finds the shared library: named by the flag or by the variable, beside this program, or where an
/// installation has it.
fn library(named: Option<&Path>) -> Result<PathBuf, String> {
    let name = format!("{}arrow_device_check{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
    let by_flag = named.map(|path| (FLAG, path.to_owned()));
    let by_variable = || env::var_os(LIBRARY).map(|path| (LIBRARY, PathBuf::from(path)));
    if let Some((by, named)) = by_flag.or_else(by_variable) {
        return match named.exists() {
            true => Ok(named),
            false => Err(format!(
                "{by} names {}, which is not there: build the crate arrow-device-check, and name its {name}",
                named.display()
            )),
        };
    }
    let program = env::current_exe().map_err(|error| {
        format!("this program cannot find itself, and so not {name} beside it: name its path with {FLAG} ({error})")
    })?;
    let folder = program.parent().unwrap_or(&program);
    let places = [folder.to_owned(), folder.join("deps"), folder.join("../lib")];
    let found = places.into_iter().map(|place| place.join(&name)).find(|path| path.exists());
    found.ok_or_else(|| {
        format!(
            "{name} is not beside this program: name its path with {FLAG} to check peers in Python"
        )
    })
}
