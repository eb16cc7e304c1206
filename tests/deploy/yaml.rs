//! YAML as JSON values, with anchors, aliases and merge keys, as Compose reads it. Every scalar is a text.

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};
use saphyr_parser::{Event, Parser, StrInput};
use serde_json::{Map, Value};

/// The one document of a text.
pub(crate) fn parse(text: &str) -> Result<Value> {
    let mut reader = Reader { events: Parser::new_from_str(text), anchors: HashMap::new() };
    loop {
        match reader.next()? {
            Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
            event => return reader.value(event),
        }
    }
}

struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, Value>,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<Event<'a>> {
        Ok(self.events.next().context("the document ends too early")??.0)
    }

    fn value(&mut self, event: Event<'a>) -> Result<Value> {
        let (anchor, value) = match event {
            Event::Scalar(text, _, anchor, _) => (anchor, Value::String(text.into_owned())),
            Event::SequenceStart(anchor, _) => (anchor, self.sequence()?),
            Event::MappingStart(anchor, _) => (anchor, self.mapping()?),
            Event::Alias(anchor) => {
                return self.anchors.get(&anchor).cloned().context("an alias without an anchor");
            }
            other => bail!("no value: {other:?}"),
        };
        if anchor > 0 {
            self.anchors.insert(anchor, value.clone());
        }
        Ok(value)
    }

    fn sequence(&mut self) -> Result<Value> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                Event::SequenceEnd => return Ok(Value::Array(items)),
                event => items.push(self.value(event)?),
            }
        }
    }

    /// What stands in the mapping itself beats what is merged into it.
    fn mapping(&mut self) -> Result<Value> {
        let (mut own, mut merged) = (Map::new(), Map::new());
        loop {
            let key = match self.next()? {
                Event::MappingEnd => break,
                Event::Scalar(text, ..) => text.into_owned(),
                other => bail!("no key: {other:?}"),
            };
            let event = self.next()?;
            match (key.as_str(), self.value(event)?) {
                ("<<", Value::Object(more)) => merged.extend(more),
                ("<<", other) => bail!("cannot merge {other}"),
                (_, value) => ensure!(own.insert(key.clone(), value).is_none(), "{key} twice"),
            }
        }
        merged.extend(own);
        Ok(Value::Object(merged))
    }
}

#[test]
fn aliases_and_merge_keys_are_followed() -> Result<()> {
    let text = "x: &x { a: 1, b: [c] }\ny: { <<: *x, a: 2 }\nz: *x\n";
    let value = parse(text)?;
    assert_eq!(value["y"], serde_json::json!({ "a": "2", "b": ["c"] }));
    assert_eq!(value["z"]["a"], "1");
    assert!(parse("a: 1\na: 2\n").is_err());
    Ok(())
}
