//! Every function of the header, called with every pointer null in turn, and with every member of
//! its tables null in turn.
//!
//! The calls are written from the header, so a new function is called too. The program is run as it
//! is, under AddressSanitizer and under valgrind: what was passed is released whatever else was
//! missing.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support;
use crate::support::interface::{Interface, Item};

#[test]
fn every_null_argument_is_an_error_and_nothing_is_lost() {
    let source = program();
    for compiler in support::compilers() {
        let program = compiler.build(&source, &include());
        assert_holds(&mut Command::new(program));
        if compiler.can_sanitize() {
            let program = compiler.build(&source, &[support::SANITIZERS, &include()].concat());
            assert_holds(&mut Command::new(program));
        }
    }
    if let Some(mut valgrind) = support::valgrind() {
        assert_holds(valgrind.arg(support::c_compiler().build(&source, &include())));
    }
}

fn assert_holds(command: &mut Command) {
    let output = support::run(support::without_drivers(command));
    let text = support::text(&output);
    support::assert_success("the program", &output);
    let line =
        text.lines().find(|line| line.contains(" calls, ")).unwrap_or_else(|| panic!("{text}"));
    let calls: usize = line.split(' ').next().unwrap().parse().unwrap();
    assert!(line.ends_with(" 0 do not hold") && calls > 350, "{text}");
}

fn include() -> [&'static str; 2] {
    ["-I", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c")]
}

/// Writes the program.
fn program() -> PathBuf {
    let header = Interface::of_header(&support::header());
    let mut body = String::new();
    let mut calls = 0;
    for (name, (returned, parameters)) in &header.functions {
        let function = Function { header: &header, name, returned, parameters };
        let mut variants =
            vec![Variant { label: "nothing missing".into(), change: Change::None, expected: "0" }];
        for parameter in parameters.iter().filter(|it| it.c_type.contains('*')) {
            let expected = if parameter.nullable { "-1" } else { "EINVAL" };
            variants.push(Variant {
                label: parameter.name.clone(),
                change: Change::Argument(&parameter.name),
                expected,
            });
            let table = parameter.c_type.trim_start_matches("const ").trim_end_matches('*');
            let members = header.structs.get(table).map_or(&[][..], Vec::as_slice);
            let is_given = parameter.c_type.starts_with("const ") && header.has_size(table);
            if is_given {
                variants.push(Variant {
                    label: format!("{} without its size", parameter.name),
                    change: Change::Member(&parameter.name, "struct_size"),
                    expected: "EINVAL",
                });
            }
            for member in members.iter().filter(|it| is_given && it.c_type.contains('*')) {
                let expected =
                    if member.nullable || parameter.name == "conversion" { "-1" } else { "EINVAL" };
                variants.push(Variant {
                    label: format!("{}.{}", parameter.name, member.name),
                    change: Change::Member(&parameter.name, &member.name),
                    expected,
                });
            }
        }
        // Handles that nobody may follow are only passed where something else is wrong, or where
        // there is no Vulkan and no oneAPI.
        let is_followed = name == "ardev_device_open_vulkan" && cfg!(feature = "vulkan")
            || name == "ardev_device_open_oneapi" && cfg!(feature = "oneapi");
        if is_followed {
            variants.retain(|variant| variant.expected == "EINVAL");
        }
        for variant in &variants {
            function.write_call(variant, &mut body);
            calls += 1;
        }
    }
    let text = format!(
        "#include \"fixtures.h\"\n\nint main(void) {{\n  open_fixtures();\n{body}\
         \n  close_fixtures();\n  check(contexts_given == contexts_released, \"each context is released once\");\
         \n  check(ardev_held_back() == 0, \"nothing is left\");\
         \n  printf(\"{calls} calls, %d do not hold\\n\", failures);\n  return failures != 0;\n}}\n"
    );
    let source = support::fresh_path("nulls.c");
    fs::write(&source, text).unwrap();
    assert!(Path::new(&source).exists());
    source
}

/// One call of a function.
struct Variant<'a> {
    label: String,
    change: Change<'a>,
    /// -1 for anything.
    expected: &'static str,
}

#[derive(PartialEq)]
enum Change<'a> {
    None,
    Argument(&'a str),
    Member(&'a str, &'a str),
}

struct Function<'a> {
    header: &'a Interface,
    name: &'a str,
    returned: &'a str,
    parameters: &'a [Item],
}

impl Function<'_> {
    fn write_call(&self, variant: &Variant<'_>, out: &mut String) {
        let (mut before, mut arguments, mut after) = (String::new(), Vec::new(), String::new());
        if self.returned != "int" {
            // These cannot fail; null is none for those that free.
            let null = |parameter: &Item| match parameter.c_type.contains('*') {
                true => "NULL",
                // A time.
                false => "10000000000",
            };
            let nulls: Vec<&str> = self.parameters.iter().map(null).collect();
            let _ = writeln!(out, "  {}({});", self.name, nulls.join(", "));
            return;
        }
        for parameter in self.parameters {
            let is_missing = variant.change == Change::Argument(&parameter.name);
            let Argument { declare, value, clean } = self.argument(parameter, is_missing);
            before.push_str(&declare);
            if let Change::Member(of, member) = variant.change
                && of == parameter.name
            {
                let nothing = if member == "struct_size" { "0" } else { "NULL" };
                let _ = writeln!(before, "    {of}.{member} = {nothing};");
                // The release of a struct whose size is not told is not looked at.
                let is_unseen = member == "struct_size" && has_end(&parameter.name);
                if member == "release" || is_unseen {
                    before.push_str("    contexts_given--;\n");
                }
            }
            arguments.push(if is_missing { "NULL".to_owned() } else { value });
            if !is_missing {
                after.push_str(&clean);
            }
        }
        let label = format!("{}: {}", self.name, variant.label);
        let expected = match (self.name, variant.expected) {
            // There is no context on the host, and read-only memory needs a copy for the older
            // form.
            ("ardev_device_open_in" | "ardev_tensor_export_legacy", "0") => "ENOSYS",
            // Nobody is there who would ask for arrays; and one array is used as long as the
            // other end is open.
            ("ardev_sender_serve", "0") => "EPROTO",
            ("ardev_sender_wait", "0") => "ETIMEDOUT",
            // The host is no Vulkan device.
            (name, "0") if name.contains("vulkan") => match cfg!(feature = "vulkan") {
                true => "EINVAL",
                false => "ENOSYS",
            },
            (name, "0") if name.contains("oneapi") => match cfg!(feature = "oneapi") {
                true => "EINVAL",
                false => "ENOSYS",
            },
            (_, expected) => expected,
        };
        let _ = write!(
            out,
            "  {{\n    int code;\n{before}    code = {}({});\n    if ({expected} != -1 && code != {expected}) {{\n      \
             fprintf(stderr, \"%d and not {expected} from \", code);\n      check(0, \"{label}\");\n    }}\n{after}  }}\n",
            self.name,
            arguments.join(", "),
        );
    }

    /// A right argument, what has to be declared for it, and what becomes of it after the call.
    fn argument(&self, parameter: &Item, is_missing: bool) -> Argument {
        let (name, c_type) = (parameter.name.as_str(), parameter.c_type.as_str());
        let local = |c_type: &str, clean: String| Argument {
            declare: match is_missing {
                true => String::new(),
                false => {
                    let size = match self.header.has_size(c_type) {
                        true => format!("    {name}.struct_size = sizeof({name});\n"),
                        false => String::new(),
                    };
                    format!("    {c_type} {name};\n    memset(&{name}, 0, sizeof({name}));\n{size}")
                }
            },
            value: format!("&{name}"),
            clean,
        };
        let is_output = matches!(
            name,
            "out" | "count" | "size" | "infos" | "sizes" | "handler" | "ticket" | "error"
        ) && !c_type.starts_with("const ")
            && c_type.ends_with('*');
        if is_output && (name != "handler" || c_type.ends_with("**")) {
            let pointee = c_type.strip_suffix('*').unwrap();
            // A descriptor that was not written is none.
            let end = match name {
                "ticket" => "    if (ticket > 0) close(ticket);\n".into(),
                _ => self.end_of(name, pointee),
            };
            return local(pointee, end);
        }
        let value = match (self.name, name, c_type) {
            ("ardev_array_dictionary", "array", _) => "g_words".into(),
            ("ardev_tensor_from_array", "array", _) => "g_numbers".into(),
            ("ardev_schema_child", "schema", _) => "g_batch_type".into(),
            ("ardev_schema_dictionary", "schema", _) => "g_word_type".into(),
            ("ardev_schema_pair", "schema", _) => "g_tagged_type".into(),
            ("ardev_array_from_bytes", "schema", _) => "g_text_type".into(),
            ("ardev_array_share" | "ardev_sender_send", "array", _) => "g_shareable".into(),
            ("ardev_sender_serve", "sender", _) => "g_alone".into(),
            (_, "fd" | "ticket", "int") => format!("fresh_{name}()"),
            (_, "pairs", _) => "g_pairs".into(),
            (_, "parameters", _) => "&g_pairs[0].value".into(),
            ("ardev_array_from_bytes", "values", _) => "&g_pairs[0].key".into(),
            (_, "is_there", _) => "(const uint8_t*)g_bytes".into(),
            (_, "n_pairs", _) => "1".into(),
            (_, "c_schema" | "c_array" | "c_stream" | "c_tensor", _)
                if !c_type.starts_with("const ") =>
            {
                return self.taken(name, c_type, is_missing);
            }
            (_, "handler", "struct ArrowAsyncDeviceStreamHandler*") => {
                let declare = if is_missing {
                    String::new()
                } else {
                    format!("    {c_type} {name} = fresh_handler();\n")
                };
                let clean = "    ardev_stream_free(g_consumer);\n".into();
                return Argument { declare, value: name.into(), clean };
            }
            (_, "c_array", _) => "&g_c_array".into(),
            (_, "submit", _) => "submit_nothing".into(),
            (_, "release", _) => {
                let declare = if is_missing { "" } else { "    contexts_given++;\n" };
                return Argument {
                    declare: declare.into(),
                    value: "release_context".into(),
                    clean: String::new(),
                };
            }
            (_, "format", _) => "\"l\"".into(),
            (_, "name", _) => "\"x\"".into(),
            (_, "text", _) => {
                let declare = if is_missing { "" } else { "    char text[64];\n" };
                return Argument {
                    declare: declare.into(),
                    value: "text".into(),
                    clean: String::new(),
                };
            }
            (
                _,
                "driver" | "allocator" | "source" | "parts" | "handles" | "queues" | "binding",
                _,
            ) => {
                let table = c_type.trim_start_matches("const ").trim_end_matches('*');
                let counts =
                    if is_missing || !has_end(name) { "" } else { "    contexts_given++;\n" };
                let declare = format!("    {table} {name} = fixture_{name}();\n{counts}");
                let declare = if is_missing { String::new() } else { declare };
                return Argument { declare, value: format!("&{name}"), clean: String::new() };
            }
            (_, "options" | "conversion", _) => {
                let table = c_type.trim_start_matches("const ").trim_end_matches('*');
                return local(table, String::new());
            }
            (_, "children" | "dictionary", _) => "NULL".into(),
            (_, "stream" | "buffer" | "receiver", _) => {
                let declare = if is_missing {
                    String::new()
                } else {
                    format!(
                        "    {} {name} = fresh_{name}();\n",
                        c_type.trim_start_matches("const ")
                    )
                };
                return Argument {
                    declare,
                    value: name.into(),
                    clean: format!("    ardev_{name}_free({name});\n"),
                };
            }
            (_, _, "void*" | "const void*") => "g_bytes".into(),
            (_, _, pointer) if pointer.contains("struct ardev_") => format!("g_{name}"),
            (_, "device_type", _) => "ARROW_DEVICE_CPU".into(),
            (_, "size", _) => "sizeof(g_bytes)".into(),
            (_, "n_queues", _) => "1".into(),
            (
                _,
                "n_children" | "index" | "offset" | "flags" | "copying" | "timeout" | "memory",
                _,
            ) => "0".into(),
            (_, "capacity", _) => "1".into(),
            (_, "length" | "window" | "ahead" | "n_devices" | "device_id" | "limit", _) => {
                "1".into()
            }
            other => panic!("no fixture for {other:?}"),
        };
        Argument { declare: String::new(), value, clean: String::new() }
    }

    /// A struct that the function takes over: afterwards it is marked as released.
    fn taken(&self, name: &str, c_type: &str, is_missing: bool) -> Argument {
        let kind = c_type.trim_start_matches("struct ").trim_end_matches('*');
        if is_missing {
            return Argument { declare: String::new(), value: String::new(), clean: String::new() };
        }
        if name == "c_tensor" {
            let declare = format!("    struct {kind}* {name} = fresh_{kind}();\n");
            return Argument { declare, value: name.into(), clean: String::new() };
        }
        let release = if kind == "ArrowDeviceArray" { "array.release" } else { "release" };
        let declare = format!("    struct {kind} {name} = fresh_{kind}();\n");
        let clean =
            format!("    check({name}.{release} == NULL, \"{} takes its struct\");\n", self.name);
        Argument { declare, value: format!("&{name}"), clean }
    }

    /// The end of what the function gave.
    fn end_of(&self, name: &str, pointee: &str) -> String {
        match pointee {
            "struct ArrowDeviceArray" => {
                format!("    if ({name}.array.release) {name}.array.release(&{name}.array);\n")
            }
            "struct ArrowSchema"
            | "struct ArrowArray"
            | "struct ArrowDeviceArrayStream"
            | "struct ArrowArrayStream" => {
                format!("    if ({name}.release) {name}.release(&{name});\n")
            }
            "DLManagedTensorVersioned*" | "DLManagedTensor*" => {
                format!("    if ({name}) {name}->deleter({name});\n")
            }
            "struct ArrowAsyncDeviceStreamHandler*" => {
                format!("    if ({name}) {name}->release({name});\n")
            }
            object if object.ends_with('*') && object.contains("ardev_") => {
                let kind = object.trim_start_matches("struct ").trim_end_matches('*');
                format!("    {kind}_free({name});\n")
            }
            _ => String::new(),
        }
    }
}

/// Whether a struct of this name has a `release`.
fn has_end(name: &str) -> bool {
    matches!(name, "driver" | "allocator" | "source")
}

struct Argument {
    declare: String,
    value: String,
    clean: String,
}
