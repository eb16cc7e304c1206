//! YAML 1.2 documents as JSON text.
//!
//! Invariant: a value reaches the JSON as it was meant or becomes a fault with its path: a number is copied digit
//! by digit or refused, a key is a text and stands once. Nesting and size are bounded, aliases included.

use std::collections::HashMap;
use std::iter::Peekable;

use cronstream_schemas::definition::DEFINITION_MAX_BYTES;
use cronstream_schemas::fault::Fault;
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use crate::number::{self, Number};

/// The deepest nesting of a document.
const DEPTH_MAX: usize = 64;
/// The most bytes of a document as JSON; twice a definition, so that a definition that is too large is still
/// refused as one.
const JSON_MAX_BYTES: usize = 2 * DEFINITION_MAX_BYTES;

/// A document that is a mapping.
#[derive(Debug, Default)]
pub(crate) struct Mapping {
    /// Where it begins.
    pub(crate) line: usize,
    /// Its fields in order.
    pub(crate) fields: Vec<Field>,
    /// What is wrong with its values.
    pub(crate) faults: Vec<Fault>,
    /// The line of each value, by its path.
    pub(crate) lines: HashMap<String, usize>,
}

/// A field of a document.
#[derive(Debug)]
pub(crate) struct Field {
    /// Its name.
    pub(crate) name: String,
    /// Its value as JSON.
    pub(crate) json: String,
}

/// Why a file cannot be read as YAML.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    /// The line.
    pub(crate) line: usize,
    /// What is wrong.
    pub(crate) problem: String,
}

impl Unreadable {
    fn at(span: Span, problem: impl Into<String>) -> Self {
        Self { line: span.start.line(), problem: problem.into() }
    }
}

impl From<ScanError> for Unreadable {
    fn from(error: ScanError) -> Self {
        Self { line: error.marker().line(), problem: error.info().to_owned() }
    }
}

/// Reads every document of a text; empty documents are left out.
///
/// # Errors
/// At the first place that is no YAML, or where a document is no mapping.
pub(crate) fn read(text: &str) -> Result<Vec<Mapping>, Unreadable> {
    read_within(text, JSON_MAX_BYTES)
}

/// As [`read`], for documents of at most so many bytes as JSON.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_within(text: &str, bytes_max: usize) -> Result<Vec<Mapping>, Unreadable> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    documents(text, bytes_max).map_err(|mut error| {
        let line = text.lines().nth(error.line.saturating_sub(1)).unwrap_or_default();
        // In YAML `*` begins an alias, and a bare cron expression is none.
        if line.contains('*') {
            error.problem.push_str("; a text with * needs quotes");
        }
        error
    })
}

fn documents(text: &str, bytes_max: usize) -> Result<Vec<Mapping>, Unreadable> {
    let mut documents = Vec::new();
    let mut events = Parser::new_from_str(text).peekable();
    loop {
        let (event, span) = take(&mut events)?;
        match event {
            Event::StreamEnd => return Ok(documents),
            Event::DocumentStart(_) => {
                let mut reader = Reader {
                    bytes_max,
                    events: &mut events,
                    document: Mapping::default(),
                    anchors: HashMap::new(),
                };
                if reader.document()? {
                    documents.push(reader.document);
                }
            }
            Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
            Event::Alias(_)
            | Event::Scalar(..)
            | Event::SequenceStart(..)
            | Event::SequenceEnd
            | Event::MappingStart(..)
            | Event::MappingEnd => {
                return Err(Unreadable::at(span, "content outside of a document"));
            }
        }
    }
}

type Events<'a> = Peekable<Parser<'a, StrInput<'a>>>;

fn take<'a>(events: &mut Events<'a>) -> Result<(Event<'a>, Span), Unreadable> {
    match events.next() {
        Some(next) => Ok(next?),
        None => Ok((Event::StreamEnd, Span::default())),
    }
}

struct Reader<'e, 'a> {
    bytes_max: usize,
    events: &'e mut Events<'a>,
    document: Mapping,
    anchors: HashMap<usize, String>,
}

impl Reader<'_, '_> {
    /// Reads the root; false for an empty document.
    fn document(&mut self) -> Result<bool, Unreadable> {
        let (event, span) = take(self.events)?;
        match event {
            Event::MappingStart(..) => {
                self.document.line = span.start.line();
                while let Some((name, line)) = self.key("$")? {
                    let mut json = String::new();
                    self.field(&mut json, &format!("$.{name}"), (line, 1))?;
                    self.document.fields.push(Field { name, json });
                }
                Ok(true)
            }
            Event::Scalar(text, ScalarStyle::Plain, ..) if text.is_empty() => Ok(false),
            Event::DocumentEnd | Event::StreamEnd => Ok(false),
            Event::Nothing
            | Event::StreamStart
            | Event::DocumentStart(_)
            | Event::Alias(_)
            | Event::Scalar(..)
            | Event::SequenceStart(..)
            | Event::SequenceEnd
            | Event::MappingEnd => Err(Unreadable::at(
                span,
                "a document is a mapping with `job` and the fields of a definition",
            )),
        }
    }

    /// Reads a key and its line; `None` at the end of the mapping.
    fn key(&mut self, path: &str) -> Result<Option<(String, usize)>, Unreadable> {
        let (event, span) = take(self.events)?;
        let line = span.start.line();
        match event {
            Event::MappingEnd => Ok(None),
            Event::Scalar(text, style, ..) => {
                let at = format!("{path}.{text}");
                if style == ScalarStyle::Plain && text == "<<" {
                    self.fault(&at, &text, "YAML 1.2 has no merge key", "the fields written out");
                } else if style == ScalarStyle::Plain && !is_text(&text) {
                    self.fault(&at, &text, "a key that is no text", "the key in quotes");
                }
                Ok(Some((text.into_owned(), line)))
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::Alias(_)
            | Event::SequenceStart(..)
            | Event::SequenceEnd
            | Event::MappingStart(..) => Err(Unreadable::at(span, "a key is a text")),
        }
    }

    /// Reads the value of a key that stands at `line`, at this depth.
    fn field(
        &mut self,
        json: &mut String,
        path: &str,
        (line, depth): (usize, usize),
    ) -> Result<(), Unreadable> {
        if let Some(first) = self.document.lines.get(path) {
            let problem = format!("stands twice, first at line {first}");
            self.fault(path, "", problem, "each key once");
        }
        self.document.lines.insert(path.to_owned(), line);
        self.value(json, path, depth)
    }

    fn value(&mut self, json: &mut String, path: &str, depth: usize) -> Result<(), Unreadable> {
        let (event, span) = take(self.events)?;
        let start = json.len();
        if depth > DEPTH_MAX {
            return Err(Unreadable::at(span, format!("nested more than {DEPTH_MAX} deep")));
        }
        let anchor = match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(json, path, &text, (style, tag.as_deref()));
                anchor
            }
            Event::MappingStart(anchor, tag) => {
                self.collection_tag(path, tag.as_deref(), "map");
                self.mapping(json, path, depth)?;
                anchor
            }
            Event::SequenceStart(anchor, tag) => {
                self.collection_tag(path, tag.as_deref(), "seq");
                self.sequence(json, path, depth)?;
                anchor
            }
            Event::Alias(anchor) => {
                let Some(text) = self.anchors.get(&anchor) else {
                    return Err(Unreadable::at(span, "an alias inside of what it stands for"));
                };
                json.push_str(text);
                0
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => return Err(Unreadable::at(span, "a value is missing")),
        };
        if json.len() > self.bytes_max {
            return Err(Unreadable::at(
                span,
                format!("grows beyond {} bytes of JSON", self.bytes_max),
            ));
        }
        if anchor > 0 {
            self.anchors.insert(anchor, json[start..].to_owned());
        }
        Ok(())
    }

    fn mapping(&mut self, json: &mut String, path: &str, depth: usize) -> Result<(), Unreadable> {
        json.push('{');
        let mut separator = "";
        while let Some((name, line)) = self.key(path)? {
            json.push_str(separator);
            separator = ",";
            push_text(json, &name);
            json.push(':');
            self.field(json, &format!("{path}.{name}"), (line, depth + 1))?;
        }
        json.push('}');
        Ok(())
    }

    fn sequence(&mut self, json: &mut String, path: &str, depth: usize) -> Result<(), Unreadable> {
        json.push('[');
        for index in 0_usize.. {
            if let Some(Ok((Event::SequenceEnd, _))) = self.events.peek() {
                take(self.events)?;
                break;
            }
            if index > 0 {
                json.push(',');
            }
            self.value(json, &format!("{path}[{index}]"), depth + 1)?;
        }
        json.push(']');
        Ok(())
    }

    fn scalar(
        &mut self,
        json: &mut String,
        path: &str,
        text: &str,
        (style, tag): (ScalarStyle, Option<&Tag>),
    ) {
        let plain = match tag.map(|tag| (tag.is_yaml_core_schema(), tag.suffix.as_str())) {
            None => style == ScalarStyle::Plain,
            Some((true, "str")) => false,
            Some((true, "null" | "bool" | "int" | "float")) => true,
            Some((_, suffix)) => {
                let problem = format!("the tag !{suffix} means nothing here");
                self.fault(path, text, problem, "a value without a tag");
                false
            }
        };
        if !plain {
            return push_text(json, text);
        }
        match text {
            "" | "~" | "null" | "Null" | "NULL" => json.push_str("null"),
            "true" | "True" | "TRUE" => json.push_str("true"),
            "false" | "False" | "FALSE" => json.push_str("false"),
            text => match number::judge(text) {
                Number::Not => push_text(json, text),
                Number::Kept => json.push_str(text),
                Number::Changed(why) => {
                    json.push_str("null");
                    let problem = format!("a YAML reader changes this number: {why}");
                    let quoted =
                        format!("'{text}' in quotes for the text; a JSON file keeps the number");
                    self.fault(path, text, problem, quoted);
                }
            },
        }
    }

    fn collection_tag(&mut self, path: &str, tag: Option<&Tag>, own: &str) {
        if let Some(tag) = tag.filter(|tag| !(tag.is_yaml_core_schema() && tag.suffix == own)) {
            let problem = format!("the tag !{} means nothing here", tag.suffix);
            self.fault(path, "", problem, "a value without a tag");
        }
    }

    fn fault(
        &mut self,
        path: &str,
        value: &str,
        problem: impl Into<String>,
        expected: impl Into<String>,
    ) {
        self.document.faults.push(Fault::new(path, value, problem, expected));
    }
}

fn is_text(plain: &str) -> bool {
    let word = matches!(
        plain,
        "" | "~"
            | "null"
            | "Null"
            | "NULL"
            | "true"
            | "True"
            | "TRUE"
            | "false"
            | "False"
            | "FALSE"
    );
    !word && number::judge(plain) == Number::Not
}

fn push_text(json: &mut String, text: &str) {
    json.push_str(&serde_json::to_string(text).expect("a text has a JSON form"));
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_cron_expression_without_quotes_is_told_what_it_lacks() {
        for text in ["schedule: {cron: * * * * *}", "a: 1\ncron: * * * * *\n", "a: */5 * * * *"] {
            let error = super::read(text).unwrap_err();
            assert!(error.problem.ends_with("; a text with * needs quotes"), "{error:?}");
        }
        assert!(!super::read("a: [").unwrap_err().problem.contains('*'));
    }

    use super::*;

    fn one(text: &str) -> Mapping {
        let mut documents = read(text).unwrap();
        assert_eq!(documents.len(), 1, "{text}");
        documents.remove(0)
    }

    fn json(text: &str) -> String {
        let document = one(text);
        assert_eq!(document.faults, [], "{text}");
        let field = |field: &Field| format!("{:?}:{}", field.name, field.json);
        document.fields.iter().map(field).collect::<Vec<_>>().join(",")
    }

    fn fault(text: &str) -> String {
        one(text)
            .faults
            .iter()
            .map(|f| format!("{} {}", f.path, f.value))
            .collect::<Vec<_>>()
            .join(";")
    }

    #[test]
    fn values_of_the_core_schema_become_json() {
        for (yaml, expected) in [
            ("a: 1\nb: -2.5", r#""a":1,"b":-2.5"#),
            ("a: [~, true, no, 'x', \"\\n\"]", r#""a":[null,true,"no","x","\n"]"#),
            ("a:\n  b: |\n    x\n    y\n", r#""a":{"b":"x\ny\n"}"#),
            ("a: '1.10'\nb: !!str 0x10", r#""a":"1.10","b":"0x10""#),
            ("a: &x {n: 1}\nb: [*x, *x]", r#""a":{"n":1},"b":[{"n":1},{"n":1}]"#),
            ("a:", r#""a":null"#),
            ("\u{feff}a: 12:30", r#""a":"12:30""#),
        ] {
            assert_eq!(json(yaml), expected, "{yaml}");
        }
    }

    #[test]
    fn a_number_that_would_change_is_refused_by_path_and_value() {
        for (yaml, expected) in [
            ("params: {id: 12345678901234567890}", "$.params.id 12345678901234567890"),
            ("params:\n  v: [1, 1.10]", "$.params.v[1] 1.10"),
            ("params: {a: 0x10, b: 010, c: 1e3}", "$.params.a 0x10;$.params.b 010;$.params.c 1e3"),
            ("params: .inf", "$.params .inf"),
            ("params: !!float 1.0", "$.params 1.0"),
        ] {
            assert_eq!(fault(yaml), expected, "{yaml}");
        }
    }

    #[test]
    fn keys_are_texts_that_stand_once() {
        assert_eq!(fault("params: {1: a}"), "$.params.1 1");
        assert_eq!(fault("params: {true: a}"), "$.params.true true");
        assert_eq!(fault("a: &x {k: 1}\nb:\n  <<: *x"), "$.b.<< <<");
        let twice = one("a: 1\nb: 2\na: 3").faults.remove(0);
        assert_eq!(
            (twice.path.as_str(), twice.problem.as_str()),
            ("$.a", "stands twice, first at line 1")
        );
        assert_eq!(fault("a: !thing x"), "$.a x");
    }

    #[test]
    fn empty_documents_are_left_out_and_lines_are_known() {
        let documents =
            read("# only a comment\n---\n\n---\na: 1\nb:\n  c: x\n---\nd: 2\n...\n").unwrap();
        let lines: Vec<_> = documents.iter().map(|document| document.line).collect();
        assert_eq!(lines, [5, 9]);
        assert_eq!(documents[0].lines["$.b.c"], 7);
        assert!(read("").unwrap().is_empty());
    }

    #[test]
    fn what_is_no_mapping_is_unreadable_at_its_line() {
        for (yaml, line) in [
            ("a: 1\n---\n- x\n", 3),
            ("a: [1\nb: 2", 2),
            ("just text", 1),
            ("a: *x", 1),
            ("? [k]\n: v", 1),
        ] {
            assert_eq!(read(yaml).unwrap_err().line, line, "{yaml}");
        }
    }

    #[test]
    fn aliases_cannot_grow_without_bound() {
        let mut yaml = String::from("a0: &a0 [xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx]\n");
        for n in 1..32 {
            let aliases = vec![format!("*a{}", n - 1); 16].join(",");
            yaml.push_str(&format!("a{n}: &a{n} [{aliases}]\n"));
        }
        assert!(read(&yaml).unwrap_err().problem.contains("grows beyond"));
        assert!(read("a: &x [*x]").is_err());
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = format!("a: {}{}", "[".repeat(200), "]".repeat(200));
        assert!(read(&deep).unwrap_err().problem.contains("nested"), "{:?}", read(&deep));
    }
}
