//! An interface as plain text: functions, structs and constants, read from the header or from the
//! Rust sources.
//!
//! Both readers write types as C does, without spaces that mean nothing, so that two interfaces can
//! be compared word for word. They read what is written in the two places of this crate, and no
//! more of either language.

use std::collections::BTreeMap;

/// A parameter or a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) c_type: String,
    /// The header says so; Rust does not know.
    pub(crate) nullable: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Interface {
    /// What each returns, and its parameters.
    pub(crate) functions: BTreeMap<String, (String, Vec<Item>)>,
    pub(crate) structs: BTreeMap<String, Vec<Item>>,
    pub(crate) constants: BTreeMap<String, i64>,
}

impl Interface {
    /// What is different, line by line; empty where nothing is.
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        let words = |it: &Self| {
            let items = |items: &[Item]| {
                items
                    .iter()
                    .map(|it| format!("{} {}", it.c_type, it.name))
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            let functions = it.functions.iter().map(|(name, (returned, parameters))| {
                format!("{returned} {name}({})", items(parameters))
            });
            let structs =
                it.structs.iter().map(|(name, members)| format!("{name} {{ {} }}", items(members)));
            let constants = it.constants.iter().map(|(name, value)| format!("{name} = {value}"));
            functions.chain(structs).chain(constants).collect::<Vec<_>>()
        };
        let (ours, theirs) = (words(self), words(other));
        let missing = |from: &[String], of: &[String], where_: &str| {
            let lines = of.iter().filter(|line| !from.contains(line));
            lines.map(|line| format!("not in {where_}: {line}")).collect::<Vec<_>>()
        };
        [missing(&ours, &theirs, "the first"), missing(&theirs, &ours, "the second")].concat()
    }

    pub(crate) fn of_header(text: &str) -> Self {
        let mut interface = Self::default();
        let mut code = String::new();
        for line in text.lines() {
            let line = line.split("//").next().unwrap().trim();
            let line = line.strip_prefix("ARDEV_CHECK ").unwrap_or(line);
            if let Some(define) = line.strip_prefix("#define ARDEV_") {
                if let Some((name, value)) = define.split_once(' ') {
                    interface
                        .constants
                        .insert(format!("ARDEV_{name}"), value.trim().parse().unwrap());
                }
            } else if !line.starts_with('#') && !line.contains("extern \"C\"") {
                code.push_str(line);
                code.push(' ');
            }
        }
        for statement in statements(&code) {
            interface.add_c(&statement);
        }
        interface
    }

    fn add_c(&mut self, statement: &str) {
        if let Some(rest) = statement.strip_prefix("enum ardev_kind {") {
            for constant in rest.trim_end_matches('}').split(',') {
                let (name, value) = constant.split_once('=').unwrap();
                self.constants.insert(name.trim().to_owned(), value.trim().parse().unwrap());
            }
        } else if statement.ends_with('}') {
            let (name, members) = statement.trim_end_matches('}').split_once('{').unwrap();
            let members = statements(members).iter().map(|member| c_item(member)).collect();
            self.structs.insert(name.trim().to_owned(), members);
        } else if let Some((head, parameters)) = statement.split_once('(') {
            let (returned, name) = head.trim().rsplit_once(' ').unwrap();
            let parameters = parameters.strip_suffix(')').unwrap();
            let parameters = match parameters.trim() {
                "void" => Vec::new(),
                parameters => split(parameters).iter().map(|it| c_item(it)).collect(),
            };
            self.functions.insert(name.to_owned(), (normal(returned), parameters));
        }
    }

    pub(crate) fn of_rust(text: &str) -> Self {
        let mut interface = Self::default();
        let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        let lines = text.lines().map(|line| line.split("//").next().unwrap().trim());
        let code = format!(" {}", lines.collect::<Vec<_>>().join(" "));
        let aliases: BTreeMap<String, String> = after(&code, " type ")
            .map(|alias| {
                let (name, rest) = alias.split_once(" = ").unwrap();
                (name.to_owned(), rest.split_once(';').unwrap().0.to_owned())
            })
            .collect();
        for function in after(&code, "#[unsafe(no_mangle)] pub ") {
            let function =
                function.trim_start_matches("unsafe ").strip_prefix("extern \"C\" fn ").unwrap();
            let (name, rest) = function.split_once('(').unwrap();
            let (parameters, rest) = rest.split_once(')').unwrap();
            let returned = rest.split_once('{').unwrap().0.trim().trim_start_matches("->").trim();
            let returned =
                if returned.is_empty() { "void".into() } else { c_type(returned, &aliases) };
            interface
                .functions
                .insert(name.to_owned(), (returned, rust_items(parameters, &aliases)));
        }
        for body in after(&code, "#[repr(C)] ") {
            let (head, members) = body.split_once('{').unwrap();
            let name = head.trim().rsplit_once(' ').unwrap().1;
            // What is for any struct is none of the header.
            if name.ends_with('>') {
                continue;
            }
            let members = members.split_once('}').unwrap().0.replace("pub ", "");
            interface
                .structs
                .insert(format!("struct {}", c_name(name)), rust_items(&members, &aliases));
        }
        for constant in after(&code, "pub const ARDEV_") {
            let (head, value) = constant.split_once('=').unwrap();
            let name = format!("ARDEV_{}", head.split_once(':').unwrap().0.trim());
            let value = value.split_once(';').unwrap().0.trim().parse().unwrap();
            interface.constants.insert(name, value);
        }
        interface
    }

    /// Whether this is a struct that begins with its size.
    pub(crate) fn has_size(&self, name: &str) -> bool {
        let members = self.structs.get(name).map_or(&[][..], Vec::as_slice);
        members.first().is_some_and(|member| member.name == "struct_size")
    }

    /// Adds what another source has.
    pub(crate) fn extend(&mut self, other: Self) {
        self.functions.extend(other.functions);
        self.structs.extend(other.structs);
        self.constants.extend(other.constants);
    }
}

/// What comes after each place where this stands.
fn after<'a>(code: &'a str, mark: &'a str) -> impl Iterator<Item = &'a str> {
    code.match_indices(mark).map(move |(at, _)| &code[at + mark.len()..])
}

/// The parts that end with a semicolon outside of braces, and the braces' own where something
/// stands before them.
fn statements(code: &str) -> Vec<String> {
    let (mut found, mut current, mut depth) = (Vec::new(), String::new(), 0);
    for letter in code.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if letter == ';' && depth == 0 {
            found.push(std::mem::take(&mut current).trim().to_owned());
        } else {
            current.push(letter);
        }
    }
    found
}

/// The parts between commas outside of brackets.
fn split(code: &str) -> Vec<String> {
    let (mut found, mut current, mut depth) = (Vec::new(), String::new(), 0);
    for letter in code.chars() {
        match letter {
            '(' | '<' => depth += 1,
            ')' | '>' => depth -= 1,
            _ => {}
        }
        if letter == ',' && depth == 0 {
            found.push(std::mem::take(&mut current));
        } else {
            current.push(letter);
        }
    }
    found.push(current);
    found.into_iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

fn c_item(text: &str) -> Item {
    if let Some((returned, rest)) = text.split_once("(*") {
        let (name, parameters) = rest.split_once(")(").unwrap();
        let parameters = parameters.strip_suffix(')').unwrap();
        let parameters = if parameters == "void" { Vec::new() } else { split(parameters) };
        let types: Vec<String> = parameters.iter().map(|it| c_item(it).c_type).collect();
        let nullable = name.contains("ARDEV_NULLABLE");
        let name = name.trim_start_matches("ARDEV_NULLABLE").trim().to_owned();
        return Item {
            name,
            c_type: format!("{}(*)({})", normal(returned), types.join(",")),
            nullable,
        };
    }
    // The mark of what is outermost stands last.
    let nullable = text.rsplit('*').next().unwrap().contains("ARDEV_NULLABLE");
    let text = text.replace("ARDEV_NULLABLE", " ");
    let (text, array) = match text.split_once('[') {
        Some((text, len)) => (text.to_owned(), format!("[{len}")),
        None => (text, String::new()),
    };
    let at = text.rfind([' ', '*']).unwrap() + 1;
    Item { name: text[at..].to_owned(), c_type: normal(&text[..at]) + &array, nullable }
}

/// Without spaces that mean nothing. What a device type is, and what is a type and what a struct,
/// is no matter here.
fn normal(c_type: &str) -> String {
    let words: Vec<&str> = c_type.split_whitespace().collect();
    let joined = words.join(" ").replace(" *", "*").replace("* ", "*");
    joined.replace("ArrowDeviceType", "int32_t").replace("struct DL", "DL")
}

fn rust_items(text: &str, aliases: &BTreeMap<String, String>) -> Vec<Item> {
    let item = |part: &String| {
        let (name, rust_type) = part.split_once(':').unwrap();
        Item {
            name: name.trim().to_owned(),
            c_type: c_type(rust_type.trim(), aliases),
            nullable: false,
        }
    };
    split(text).iter().map(item).collect()
}

fn c_type(rust: &str, aliases: &BTreeMap<String, String>) -> String {
    if let Some(inner) = rust.strip_prefix("*mut ") {
        return c_type(inner, aliases) + "*";
    }
    if let Some(inner) = rust.strip_prefix("*const ") {
        let inner_type = c_type(inner, aliases);
        return if inner.starts_with('*') {
            inner_type + "const*"
        } else {
            format!("const {inner_type}*")
        };
    }
    if let Some(inner) = rust.strip_prefix("Option<") {
        return c_type(inner.strip_suffix('>').unwrap(), aliases);
    }
    if let Some(function) = rust.strip_prefix("unsafe extern \"C\" fn(") {
        let (parameters, returned) = function.split_once(')').unwrap();
        let unnamed = |part: &String| match part.split_once(": ") {
            Some((_, rust)) => c_type(rust, aliases),
            None => c_type(part, aliases),
        };
        let types: Vec<String> = split(parameters).iter().map(unnamed).collect();
        let returned = returned.trim().trim_start_matches("-> ");
        let returned = if returned.is_empty() { "void".into() } else { c_type(returned, aliases) };
        return format!("{returned}(*)({})", types.join(","));
    }
    if let Some((inner, len)) =
        rust.strip_prefix('[').and_then(|array| array.strip_suffix(']')?.split_once("; "))
    {
        let len = if len == "CAPACITY" { "1008" } else { len };
        return format!("{}[{len}]", c_type(inner, aliases));
    }
    if let Some(alias) = aliases.get(rust) {
        return c_type(alias, aliases);
    }
    match rust {
        "c_int" => "int".into(),
        "c_char" => "char".into(),
        "c_void" => "void".into(),
        "u8" => "uint8_t".into(),
        "i32" => "int32_t".into(),
        "u32" => "uint32_t".into(),
        "i64" => "int64_t".into(),
        "u64" => "uint64_t".into(),
        "usize" => "size_t".into(),
        "bool" => "bool".into(),
        name if name.starts_with("DL") => name.into(),
        name => format!("struct {}", c_name(name)),
    }
}

/// `ArdevArrayInfo` is `ardev_array_info`; what is Arrow's keeps its name.
fn c_name(rust: &str) -> String {
    if !rust.starts_with("Ardev") {
        return rust.to_owned();
    }
    let mut name = String::new();
    for letter in rust.chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_lowercase());
    }
    name
}
