//! `arrow-device completions` and `arrow-device manual`: what shells and `man` know of the command.
//!
//! Both are made from the table of arguments, so that they have what the command has.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::{Shell, generate};
use clap_mangen::Man;

use crate::failure::{Failure, Outcome};

const NAME: &str = "arrow-device";

const COMPLETION_EXAMPLES: &str = "\
Examples:
  arrow-device completions bash > ~/.local/share/bash-completion/completions/arrow-device
  arrow-device completions zsh > ~/.zfunc/_arrow-device
  arrow-device completions fish > ~/.config/fish/completions/arrow-device.fish";

const MANUAL_EXAMPLES: &str = "\
Examples:
  arrow-device manual | man -l -
  arrow-device manual --to /usr/local/share/man/man1   a page for each command, too";

/// The shells that there is a script for.
const SHELLS: [(&str, Shell); 3] =
    [("bash", Shell::Bash), ("zsh", Shell::Zsh), ("fish", Shell::Fish)];

pub(crate) fn completions() -> Command {
    Command::new("completions")
        .about("Print the script with which a shell completes this command")
        .after_help(COMPLETION_EXAMPLES)
        .arg(
            Arg::new("SHELL")
                .required(true)
                .value_parser(SHELLS.map(|(name, _)| name))
                .help("The shell"),
        )
}

pub(crate) fn complete(matches: &ArgMatches, out: &mut dyn Write) -> Outcome {
    let named = matches.get_one::<String>("SHELL").map_or("", String::as_str);
    let Some((_, shell)) = SHELLS.iter().find(|(name, _)| *name == named) else {
        return Err(Failure::misuse(format!("there is no script for `{named}`")));
    };
    let mut script = Vec::new();
    generate(*shell, &mut crate::command(), NAME, &mut script);
    let script = String::from_utf8_lossy(&script);
    // For bash clap_complete 4.6 takes the hyphen in the name for one before a subcommand in half
    // of the places, so that nothing behind a subcommand is completed.
    out.write_all(script.replace("arrow__subcmd__device", "arrow__device").as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn manual() -> Command {
    Command::new("manual")
        .about("Print the manual page, or write the pages of all commands into a folder")
        .after_help(MANUAL_EXAMPLES)
        .arg(
            Arg::new("to")
                .long("to")
                .value_name("FOLDER")
                .value_parser(value_parser!(PathBuf))
                .help("Write arrow-device.1, and a page for each command, into this folder"),
        )
}

pub(crate) fn write_manual(matches: &ArgMatches, out: &mut dyn Write) -> Outcome {
    match matches.get_one::<PathBuf>("to") {
        None => Man::new(crate::command()).render(out)?,
        Some(folder) => {
            let told = |error| Failure::from(error).during(folder.display());
            std::fs::create_dir_all(folder).map_err(told)?;
            clap_mangen::generate_to(crate::command(), folder).map_err(told)?;
            writeln!(out, "{}", folder.display())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
