//! JSON values that keep integers apart from reals and refuse repeated keys.

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// One JSON value.
pub(super) enum Tree {
    Integer(u64),
    Real(f64),
    Text(String),
    List(Vec<Tree>),
    Object(Vec<(String, Tree)>),
    Null,
    /// true, false: no event has them.
    Other,
}

impl Tree {
    /// The number, if it is one and finite.
    pub(super) fn as_real(&self) -> Option<f64> {
        match *self {
            Self::Integer(n) => Some(n as f64),
            Self::Real(x) => x.is_finite().then_some(x),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_u64<E>(self, n: u64) -> Result<Tree, E> {
        Ok(Tree::Integer(n))
    }
    fn visit_i64<E>(self, n: i64) -> Result<Tree, E> {
        Ok(u64::try_from(n).map_or(Tree::Real(n as f64), Tree::Integer))
    }
    fn visit_f64<E>(self, x: f64) -> Result<Tree, E> {
        Ok(Tree::Real(x))
    }
    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.to_owned()))
    }
    fn visit_bool<E>(self, _: bool) -> Result<Tree, E> {
        Ok(Tree::Other)
    }
    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Tree, A::Error> {
        let mut object: Vec<(String, Tree)> = Vec::new();
        while let Some((key, value)) = entries.next_entry::<String, Tree>()? {
            if object.iter().any(|(k, _)| *k == key) {
                return Err(de::Error::custom(format!("field `{key}` appears twice")));
            }
            object.push((key, value));
        }
        Ok(Tree::Object(object))
    }
}
