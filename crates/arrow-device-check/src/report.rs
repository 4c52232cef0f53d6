//! [`Report`]: the findings, rule by rule, as text, as JSON, and as JUnit XML.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use crate::peer::Subject;
use crate::rules::{self, Rule};

/// The result of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// The rule could not be looked at.
    NotApplicable,
    /// The rule was kept wherever it was looked at.
    Pass,
    /// The rule was broken, and the user allowed that.
    Allowed,
    /// The rule was broken.
    Fail,
}

impl Verdict {
    /// Returns the name of the verdict in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotApplicable => "not applicable",
            Self::Pass => "pass",
            Self::Allowed => "allowed",
            Self::Fail => "fail",
        }
    }
}

/// A result in a scenario.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    /// The scenario.
    pub scenario: String,
    /// The result.
    pub text: String,
}

/// The findings about one rule.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// The worst verdict.
    pub verdict: Verdict,
    /// The results where the rule was broken, or the reasons why it could not be looked at.
    pub seen: Vec<Seen>,
}

/// All findings about a peer.
#[derive(Clone, Debug)]
pub struct Report {
    subject: Subject,
    found: BTreeMap<usize, Finding>,
}

impl Report {
    pub(crate) fn new(subject: &Subject) -> Self {
        Self { subject: subject.clone(), found: BTreeMap::new() }
    }

    pub(crate) fn add(&mut self, id: &str, verdict: Verdict, scenario: &str, text: &str) {
        let Some((number, rule)) = rules::find(id) else { return };
        let finding =
            self.found.entry(number).or_insert_with(|| Finding { rule, verdict, seen: Vec::new() });
        if verdict > finding.verdict {
            finding.verdict = verdict;
            finding.seen.clear();
        }
        let seen = Seen { scenario: scenario.to_owned(), text: text.to_owned() };
        if verdict == finding.verdict && verdict != Verdict::Pass && !finding.seen.contains(&seen) {
            finding.seen.push(seen);
        }
    }

    /// Allows these rules to be broken.
    #[must_use]
    pub fn allowing(mut self, ids: &[String]) -> Self {
        for finding in self.found.values_mut() {
            if finding.verdict == Verdict::Fail && ids.iter().any(|id| id == finding.rule.id) {
                finding.verdict = Verdict::Allowed;
            }
        }
        self
    }

    /// Returns the findings, in the order of the rules.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.found.values()
    }

    /// Returns the ids of the rules that were broken.
    pub fn failed(&self) -> Vec<&'static str> {
        let failed = self.findings().filter(|finding| finding.verdict == Verdict::Fail);
        failed.map(|finding| finding.rule.id).collect()
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.findings().filter(|finding| finding.verdict == verdict).count()
    }

    fn title(&self) -> String {
        let Subject { peer, kind, side } = &self.subject;
        format!("{} of kind {}: {peer}", side.name(), kind.name())
    }

    /// Returns the report as JSON: one object, whose members stay the same in later versions.
    pub fn to_json(&self) -> String {
        let Subject { peer, kind, side } = &self.subject;
        let mut text = format!(
            "{{\n  \"version\": 1,\n  \"peer\": {},\n  \"kind\": \"{}\",\n  \"side\": \"{}\",\n",
            quoted(peer),
            kind.name(),
            side.name()
        );
        let counts = [Verdict::Pass, Verdict::Fail, Verdict::Allowed, Verdict::NotApplicable];
        let counts =
            counts.map(|verdict| format!("\"{}\": {}", verdict.name(), self.count(verdict)));
        let _ = write!(text, "  \"counts\": {{ {} }},\n  \"rules\": [", counts.join(", "));
        let rules: Vec<String> = self.findings().map(json_of).collect();
        let _ = write!(text, "\n{}\n  ]\n}}\n", rules.join(",\n"));
        text
    }

    /// Returns the report as JUnit XML, with a case for each rule.
    pub fn to_junit(&self) -> String {
        let (all, failed) = (self.found.len(), self.count(Verdict::Fail));
        let skipped = self.count(Verdict::NotApplicable);
        let name = escaped(&self.title());
        let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let counts =
            format!("tests=\"{all}\" failures=\"{failed}\" errors=\"0\" skipped=\"{skipped}\"");
        let _ = writeln!(text, "<testsuites {counts}>\n  <testsuite name=\"{name}\" {counts}>");
        for finding in self.findings() {
            let (id, sentence) = (finding.rule.id, escaped(finding.rule.sentence));
            let class = format!("arrow-device-check.{}", finding.rule.group());
            let _ = write!(text, "    <testcase classname=\"{class}\" name=\"{id}: {sentence}\"");
            let seen = escaped(&lines_of(&finding.seen, ""));
            let _ = match finding.verdict {
                Verdict::Pass | Verdict::Allowed => writeln!(text, "/>"),
                Verdict::Fail => writeln!(
                    text,
                    ">\n      <failure message=\"{sentence}\">{seen}</failure>\n    </testcase>"
                ),
                Verdict::NotApplicable => {
                    writeln!(text, ">\n      <skipped message=\"{seen}\"/>\n    </testcase>")
                }
            };
        }
        text.push_str("  </testsuite>\n</testsuites>\n");
        text
    }
}

fn json_of(finding: &Finding) -> String {
    let seen: Vec<String> = finding
        .seen
        .iter()
        .map(|seen| {
            format!(
                "{{ \"scenario\": {}, \"text\": {} }}",
                quoted(&seen.scenario),
                quoted(&seen.text)
            )
        })
        .collect();
    format!(
        "    {{ \"id\": \"{}\", \"verdict\": \"{}\", \"sentence\": {}, \"seen\": [{}] }}",
        finding.rule.id,
        finding.verdict.name(),
        quoted(finding.rule.sentence),
        seen.join(", ")
    )
}

/// Returns a string of JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        let _ = match character {
            '"' => write!(quoted, "\\\""),
            '\\' => write!(quoted, "\\\\"),
            '\n' => write!(quoted, "\\n"),
            control if control.is_control() => write!(quoted, "\\u{:04x}", control as u32),
            other => write!(quoted, "{other}"),
        };
    }
    quoted.push('"');
    quoted
}

/// Returns text of XML, also for attributes. Characters that XML cannot have are left out.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            control if control.is_control() || matches!(control, '\u{fffe}' | '\u{ffff}') => {}
            other => escaped.push(other),
        }
    }
    escaped
}

/// Returns a line for each result. Scenarios with the same result share a line.
fn lines_of(seen: &[Seen], before: &str) -> String {
    let mut texts: Vec<(&str, Vec<&str>)> = Vec::new();
    for Seen { scenario, text } in seen {
        match texts.iter_mut().find(|(known, _)| known == text) {
            Some((_, scenarios)) => scenarios.push(scenario),
            None => texts.push((text, vec![scenario])),
        }
    }
    let line = |(text, scenarios): &(&str, Vec<&str>)| {
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        let rest: Vec<String> = rest.lines().map(|line| format!("\n        {line}")).collect();
        format!("{before}{first} [{}]{}", scenarios.join("; "), rest.concat())
    };
    texts.iter().map(line).collect::<Vec<_>>().join("\n")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title())?;
        let of = |verdict| self.findings().filter(move |finding| finding.verdict == verdict);
        for (verdict, head) in [(Verdict::Fail, "FAIL"), (Verdict::Allowed, "allowed")] {
            for finding in of(verdict) {
                let Rule { id, sentence, remedy, .. } = finding.rule;
                writeln!(f, "\n{head} {id}: {sentence}")?;
                writeln!(f, "{}", lines_of(&finding.seen, "  seen: "))?;
                writeln!(f, "  do:   {remedy}")?;
            }
        }
        if self.count(Verdict::NotApplicable) > 0 {
            writeln!(f, "\nnot applicable, or not looked at:")?;
            for finding in of(Verdict::NotApplicable) {
                writeln!(f, "  {}", finding.rule.id)?;
                writeln!(f, "{}", lines_of(&finding.seen, "    "))?;
            }
        }
        let passed: Vec<&str> = of(Verdict::Pass).map(|finding| finding.rule.id).collect();
        writeln!(
            f,
            "\npass: {}",
            if passed.is_empty() { "none".into() } else { passed.join(" ") }
        )?;
        writeln!(
            f,
            "\n{} rules passed, {} failed, {} not applicable",
            passed.len(),
            self.count(Verdict::Fail),
            self.count(Verdict::NotApplicable)
        )
    }
}
