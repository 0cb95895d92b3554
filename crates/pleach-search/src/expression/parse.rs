//! Text to syntax tree: a hand-written lexer and a precedence-climbing parser.

/// Parentheses, signs and powers may be nested this deep, so that parsing keeps to a small stack.
const MAX_NESTING: usize = 64;
/// No tree is deeper than this, so that evaluation keeps to a small stack; a sum of this many terms.
const MAX_DEPTH: usize = 1000;

/// A fault and its 1-based column.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) column: usize,
    pub(super) message: String,
}

impl Fault {
    pub(super) fn new<T>(column: usize, message: impl Into<String>) -> Result<T, Self> {
        Err(Self { column, message: message.into() })
    }
}

/// A part of an expression and where it begins.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) column: usize,
    pub(super) kind: Kind,
    depth: usize,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Number(f64),
    Text(String),
    Bool(bool),
    Name(String),
    Negate(Box<Node>),
    Not(Box<Node>),
    Arithmetic(Arithmetic, Box<Node>, Box<Node>),
    /// `a < b <= c` is one chain.
    Chain(Box<Node>, Vec<(Comparison, Node)>),
    In(Box<Node>, Vec<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Call(Function, Vec<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Min,
    Max,
    Abs,
    Floor,
    Ceil,
    Sqrt,
    Log,
    Exp,
    Count,
}

impl Function {
    const ALL: [(&'static str, Function); 9] = [
        ("min", Function::Min),
        ("max", Function::Max),
        ("abs", Function::Abs),
        ("floor", Function::Floor),
        ("ceil", Function::Ceil),
        ("sqrt", Function::Sqrt),
        ("log", Function::Log),
        ("exp", Function::Exp),
        ("count", Function::Count),
    ];

    /// The fewest arguments it takes, and whether it takes more.
    fn arguments(self) -> (usize, bool) {
        match self {
            Function::Min | Function::Max => (2, true),
            Function::Count => (1, true),
            _ => (1, false),
        }
    }
}

/// Words that cannot be names of parameters.
pub(crate) const KEYWORDS: [&str; 6] = ["and", "or", "not", "in", "true", "false"];

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(f64),
    Text(String),
    Word(String),
    Symbol(&'static str),
    End,
}

impl Token {
    fn describe(&self) -> String {
        match self {
            Token::Number(x) => format!("{x}"),
            Token::Text(text) => format!("'{text}'"),
            Token::Word(word) => word.clone(),
            Token::Symbol(symbol) => format!("`{symbol}`"),
            Token::End => "the end".into(),
        }
    }
}

/// Longer symbols first.
const SYMBOLS: [&str; 18] =
    ["**", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "(", ")", "[", "]", ",", "="];

/// Parses a whole expression. `is_name` tells names of parameters, which may contain `-` and `.`:
/// the longest one wins, so `a-b` is a difference unless a parameter has that name.
pub(super) fn parse(text: &str, is_name: &dyn Fn(&str) -> bool) -> Result<Node, Fault> {
    let mut parser = Parser { tokens: lex(text, is_name)?, at: 0, nesting: 0 };
    let node = parser.expression(0)?;
    match parser.peek() {
        Token::End => Ok(node),
        Token::Symbol("=") => Fault::new(parser.column(), "write == to compare"),
        other => Fault::new(parser.column(), format!("expected an operator, got {}", other.describe())),
    }
}

fn lex(text: &str, is_name: &dyn Fn(&str) -> bool) -> Result<Vec<(Token, usize)>, Fault> {
    let mut tokens = Vec::new();
    let mut rest = text;
    let mut column = 1;
    while let Some(first) = rest.chars().next() {
        let length = if first.is_whitespace() {
            first.len_utf8()
        } else {
            let (token, length) = token(rest, first, is_name).map_err(|message| Fault { column, message })?;
            tokens.push((token, column));
            length
        };
        column += rest[..length].chars().count();
        rest = &rest[length..];
    }
    tokens.push((Token::End, column));
    Ok(tokens)
}

/// The token at the start of `rest` and its length in bytes.
fn token(rest: &str, first: char, is_name: &dyn Fn(&str) -> bool) -> Result<(Token, usize), String> {
    if matches!(first, '\'' | '"') {
        let Some((inside, _)) = rest[1..].split_once(first) else {
            return Err("the quote is not closed".into());
        };
        return Ok((Token::Text(inside.to_owned()), inside.len() + 2));
    }
    if first.is_ascii_alphabetic() || first == '_' {
        let length = word(rest, is_name);
        return Ok((Token::Word(rest[..length].to_owned()), length));
    }
    if first.is_ascii_digit() || first == '.' {
        let length = number(rest);
        return match rest[..length].parse::<f64>() {
            Ok(x) if x.is_finite() => Ok((Token::Number(x), length)),
            _ => Err(format!("{} is not a number", &rest[..length])),
        };
    }
    match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
        Some(symbol) => Ok((Token::Symbol(symbol), symbol.len())),
        None if rest.starts_with("&&") => Err("write `and`".into()),
        None if rest.starts_with("||") => Err("write `or`".into()),
        None if first == '!' => Err("write `not`".into()),
        None => Err(format!("{first} has no meaning here")),
    }
}

/// Length of the word at the start: the longest name of a parameter, else letters, digits and `_`.
fn word(rest: &str, is_name: &dyn Fn(&str) -> bool) -> usize {
    let run = |allowed: fn(char) -> bool| rest.find(|c| !allowed(c)).unwrap_or(rest.len());
    let longest = run(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    let plain = run(|c| c.is_ascii_alphanumeric() || c == '_');
    let ends = |end: &usize| *end == longest || matches!(rest.as_bytes()[*end], b'-' | b'.');
    (plain..=longest).rev().filter(ends).find(|&end| is_name(&rest[..end])).unwrap_or(plain)
}

/// Length of the number at the start.
fn number(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let digits = |from: usize| from + bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut end = digits(0);
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    end
}

/// How tightly operators bind; a larger number binds tighter.
mod power {
    pub(super) const OR: u8 = 1;
    pub(super) const AND: u8 = 2;
    pub(super) const NOT: u8 = 3;
    pub(super) const COMPARE: u8 = 4;
    pub(super) const SUM: u8 = 5;
    pub(super) const PRODUCT: u8 = 6;
    pub(super) const SIGN: u8 = 7;
    pub(super) const POWER: u8 = 8;
}

struct Parser {
    tokens: Vec<(Token, usize)>,
    at: usize,
    nesting: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].0
    }

    fn column(&self) -> usize {
        self.tokens[self.at].1
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        // `End` is never passed.
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn eat(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Token::Symbol(s) if *s == symbol);
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Fault> {
        if self.eat(symbol) {
            return Ok(());
        }
        Fault::new(self.column(), format!("expected `{symbol}`, got {}", self.peek().describe()))
    }

    fn is_word(&self, offset: usize, word: &str) -> bool {
        matches!(self.tokens.get(self.at + offset), Some((Token::Word(w), _)) if w == word)
    }

    /// An expression of operators that bind at least as tightly as `least`.
    fn expression(&mut self, least: u8) -> Result<Node, Fault> {
        if self.nesting == MAX_NESTING {
            return Fault::new(self.column(), "nested too deeply");
        }
        self.nesting += 1;
        let mut left = self.operand()?;
        while let Some(joined) = self.infix(&mut left, least)? {
            left = joined;
        }
        self.nesting -= 1;
        Ok(left)
    }

    fn operand(&mut self) -> Result<Node, Fault> {
        let column = self.column();
        let kind = match self.next() {
            Token::Number(x) => Kind::Number(x),
            Token::Text(text) => Kind::Text(text),
            Token::Word(word) => match word.as_str() {
                "true" => Kind::Bool(true),
                "false" => Kind::Bool(false),
                "not" => Kind::Not(Box::new(self.expression(power::NOT)?)),
                "and" | "or" | "in" => {
                    return Fault::new(column, format!("expected a value before `{word}`"));
                }
                _ if matches!(self.peek(), Token::Symbol("(")) => return self.call(&word, column),
                _ => Kind::Name(word),
            },
            Token::Symbol("(") => {
                let inner = self.expression(0)?;
                self.expect(")")?;
                return Ok(inner);
            }
            Token::Symbol("-") => Kind::Negate(Box::new(self.expression(power::SIGN)?)),
            Token::Symbol("+") => return self.expression(power::SIGN),
            other => return Fault::new(column, format!("expected a value, got {}", other.describe())),
        };
        node(column, kind)
    }

    fn call(&mut self, name: &str, column: usize) -> Result<Node, Fault> {
        let Some((_, function)) = Function::ALL.iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = Function::ALL.iter().map(|(known, _)| *known).collect();
            return Fault::new(
                column,
                format!("no function is called {name}; there are {}", known.join(", ")),
            );
        };
        let arguments = self.list("(", ")")?;
        let (n, (fewest, or_more)) = (arguments.len(), function.arguments());
        if n < fewest || (n > fewest && !or_more) {
            let wanted = if or_more { "two or more arguments" } else { "one argument" };
            return Fault::new(column, format!("{name} takes {wanted}, got {n}"));
        }
        node(column, Kind::Call(*function, arguments))
    }

    /// Expressions between two symbols, with commas; not empty.
    fn list(&mut self, open: &str, close: &str) -> Result<Vec<Node>, Fault> {
        self.expect(open)?;
        let mut items = vec![self.expression(0)?];
        while self.eat(",") {
            items.push(self.expression(0)?);
        }
        self.expect(close)?;
        Ok(items)
    }

    /// Joins `left` with the operator that follows, if it binds tightly enough.
    fn infix(&mut self, left: &mut Node, least: u8) -> Result<Option<Node>, Fault> {
        let column = left.column;
        let take =
            |left: &mut Node| std::mem::replace(left, Node { column, kind: Kind::Bool(false), depth: 0 });
        if let Some((operator, _, right)) = self.arithmetic().filter(|(_, binds, _)| *binds >= least) {
            self.next();
            let right = self.expression(right)?;
            return node(column, Kind::Arithmetic(operator, Box::new(take(left)), Box::new(right))).map(Some);
        }
        if least <= power::COMPARE {
            if self.comparison().is_some() {
                let mut links = Vec::new();
                while let Some(operator) = self.comparison() {
                    self.next();
                    links.push((operator, self.expression(power::SUM)?));
                }
                return node(column, Kind::Chain(Box::new(take(left)), links)).map(Some);
            }
            let negated = self.is_word(0, "not") && self.is_word(1, "in");
            if negated || self.is_word(0, "in") {
                self.next();
                if negated {
                    self.next();
                }
                let items = self.list("[", "]")?;
                let mut found = node(column, Kind::In(Box::new(take(left)), items))?;
                if negated {
                    found = node(column, Kind::Not(Box::new(found)))?;
                }
                return Ok(Some(found));
            }
        }
        for (word, binds) in [("and", power::AND), ("or", power::OR)] {
            if least <= binds && self.is_word(0, word) {
                let mut items = vec![take(left)];
                while self.is_word(0, word) {
                    self.next();
                    items.push(self.expression(binds + 1)?);
                }
                let kind = if word == "and" { Kind::And(items) } else { Kind::Or(items) };
                return node(column, kind).map(Some);
            }
        }
        Ok(None)
    }

    /// The arithmetic operator that follows, how tightly it binds, and how tightly its right side must.
    fn arithmetic(&self) -> Option<(Arithmetic, u8, u8)> {
        let Token::Symbol(symbol) = self.peek() else { return None };
        Some(match *symbol {
            "+" => (Arithmetic::Add, power::SUM, power::PRODUCT),
            "-" => (Arithmetic::Subtract, power::SUM, power::PRODUCT),
            "*" => (Arithmetic::Multiply, power::PRODUCT, power::SIGN),
            "/" => (Arithmetic::Divide, power::PRODUCT, power::SIGN),
            "%" => (Arithmetic::Remainder, power::PRODUCT, power::SIGN),
            // Powers associate to the right: 2 ** 3 ** 2 is 2 ** 9.
            "**" => (Arithmetic::Power, power::POWER, power::SIGN),
            _ => return None,
        })
    }

    fn comparison(&self) -> Option<Comparison> {
        let Token::Symbol(symbol) = self.peek() else { return None };
        Some(match *symbol {
            "==" => Comparison::Equal,
            "!=" => Comparison::Unequal,
            "<" => Comparison::Less,
            "<=" => Comparison::AtMost,
            ">" => Comparison::Greater,
            ">=" => Comparison::AtLeast,
            _ => return None,
        })
    }
}

fn node(column: usize, kind: Kind) -> Result<Node, Fault> {
    let deepest = |nodes: &[Node]| nodes.iter().map(|node| node.depth).max().unwrap_or(0);
    let below = match &kind {
        Kind::Number(_) | Kind::Text(_) | Kind::Bool(_) | Kind::Name(_) => 0,
        Kind::Negate(inner) | Kind::Not(inner) => inner.depth,
        Kind::Arithmetic(_, left, right) => left.depth.max(right.depth),
        Kind::Chain(first, links) => {
            links.iter().map(|(_, node)| node.depth).max().unwrap_or(0).max(first.depth)
        }
        Kind::In(item, items) => item.depth.max(deepest(items)),
        Kind::And(items) | Kind::Or(items) | Kind::Call(_, items) => deepest(items),
    };
    if below >= MAX_DEPTH {
        return Fault::new(
            column,
            format!("longer than {MAX_DEPTH} terms; split it into several constraints"),
        );
    }
    Ok(Node { column, kind, depth: below + 1 })
}
