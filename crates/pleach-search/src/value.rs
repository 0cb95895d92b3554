//! Values of parameters: as Pleach stores them ([`Value`]) and as people read them ([`Literal`]).

use std::fmt;

use serde::{Deserialize, Serialize};

/// The native value of one parameter: what is stored and hashed.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of a float.
    Float(f64),
    /// Of an int.
    Int(i64),
    /// Of a bool.
    Bool(bool),
    /// Index of an option of an ordinal or categorical; options are only ever appended.
    Choice(u32),
    /// `order[i]` is the element at position `i`; elements are `0..n`.
    Permutation(Box<[u32]>),
}

impl Value {
    /// The number of a float or int.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Float(x) => Some(*x),
            Value::Int(k) => Some(*k as f64),
            _ => None,
        }
    }

    /// The index of an ordinal's or categorical's option.
    pub fn as_choice(&self) -> Option<usize> {
        match self {
            Value::Choice(index) => Some(*index as usize),
            _ => None,
        }
    }
}

/// A value as a person or a file writes it: an option by its label, not by its index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Literal {
    /// `true`, `false`.
    Bool(bool),
    /// `3`.
    Int(i64),
    /// `0.1`.
    Float(f64),
    /// `"adamw"`.
    Text(String),
    /// A permutation, `[2, 0, 1]`.
    List(Vec<u32>),
}

impl Literal {
    /// The number of an int or float.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Literal::Int(k) => Some(*k as f64),
            Literal::Float(x) => Some(*x),
            _ => None,
        }
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Bool(b) => write!(f, "{b}"),
            Literal::Int(k) => write!(f, "{k}"),
            // `{:?}` is the shortest text that parses back to the same float.
            Literal::Float(x) => write!(f, "{x:?}"),
            Literal::Text(text) => f.write_str(text),
            Literal::List(items) => {
                let items: Vec<String> = items.iter().map(u32::to_string).collect();
                write!(f, "[{}]", items.join(","))
            }
        }
    }
}

impl From<bool> for Literal {
    fn from(b: bool) -> Self {
        Literal::Bool(b)
    }
}

impl From<i64> for Literal {
    fn from(k: i64) -> Self {
        Literal::Int(k)
    }
}

impl From<f64> for Literal {
    fn from(x: f64) -> Self {
        Literal::Float(x)
    }
}

impl From<&str> for Literal {
    fn from(text: &str) -> Self {
        Literal::Text(text.to_owned())
    }
}
