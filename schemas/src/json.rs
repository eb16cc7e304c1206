//! Opaque JSON that is carried bit for bit, and a reader of objects that loses nothing.
//!
//! Invariant: what a client sent as params, or a task as its result, leaves as the same bytes; no number is
//! ever parsed on the way.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

/// The most bytes of params or of a result.
pub const OPAQUE_MAX_BYTES: usize = 128 * 1024;

/// A JSON text kept as it was written; cheap to clone.
#[derive(Clone)]
pub struct Json(Arc<RawValue>);

impl Json {
    /// Parses and keeps a JSON text.
    ///
    /// # Errors
    /// The parser's error when the text is not one JSON value.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<Box<RawValue>>(text).map(|raw| Self(Arc::from(raw)))
    }

    /// The JSON of a value.
    ///
    /// # Errors
    /// When the value has no JSON form, such as a map with keys that are no strings.
    pub fn of<T: Serialize>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(|raw| Self(Arc::from(raw)))
    }

    /// The empty object.
    #[must_use]
    pub fn empty() -> Self {
        Self::parse("{}").expect("{} is JSON")
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Whether both are the same text in the same place: one a clone of the other.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self.as_str(), other.as_str())
    }
}

impl From<&RawValue> for Json {
    fn from(raw: &RawValue) -> Self {
        Self(Arc::from(raw.to_owned()))
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || self.as_str() == other.as_str()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|raw| Self(Arc::from(raw)))
    }
}

/// Reads an optional field that is there: `null` is JSON too, and is kept.
pub(crate) fn present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

impl schemars::JsonSchema for Json {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Json".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!(true)
    }
}

/// An object's fields in order, duplicates included, each value as its text.
#[derive(Debug)]
pub struct Fields<'a>(pub Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Reader).map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_twenty_digit_number_stays_itself() {
        let text = r#"{"n":12345678901234567890, "f":1.10}"#;
        let json = Json::parse(text).unwrap();
        assert_eq!(serde_json::to_string(&json).unwrap(), text);
    }

    #[test]
    fn a_clone_is_the_same_text_and_an_equal_one_is_not() {
        let json = Json::parse("[1]").unwrap();
        let equal = Json::parse("[1]").unwrap();
        assert!(json.is_same(&json.clone()) && !json.is_same(&equal));
        assert_eq!(json, equal);
        assert_ne!(json, Json::parse("[1 ]").unwrap());
    }

    #[test]
    fn a_repeated_field_is_seen_twice() {
        let fields: Fields<'_> = serde_json::from_str(r#"{"a":1,"b":2,"a":3}"#).unwrap();
        let names: Vec<_> = fields.0.iter().map(|(name, raw)| (name.as_str(), raw.get())).collect();
        assert_eq!(names, [("a", "1"), ("b", "2"), ("a", "3")]);
    }
}
