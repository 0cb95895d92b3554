//! Syntax tree to compiled expression: names become indices, and types are checked.

use std::collections::HashMap;

use super::Either;
use super::condition::{Condition, Number, at_most};
use super::parse::{Comparison, Fault, Function, Kind, Node};
use crate::space::{Axis, option_list, whole};
use crate::{Domain, Literal, Parameter};

/// The parameters that an expression may mention.
#[derive(Debug)]
pub(crate) struct Scope<'a> {
    pub(crate) parameters: &'a [Parameter],
    pub(crate) axes: &'a [Axis],
    pub(crate) by_name: &'a HashMap<String, usize>,
}

impl Scope<'_> {
    pub(super) fn index_of(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }
}

/// The compiled condition and the parameters it mentions.
pub(super) fn condition(node: &Node, scope: &Scope<'_>) -> Result<(Condition, Vec<usize>), Fault> {
    let mut compiler = Compiler { scope, mentioned: Vec::new() };
    let condition = compiler.condition(node)?;
    let mut mentioned = compiler.mentioned;
    mentioned.sort_unstable();
    mentioned.dedup();
    Ok((condition, mentioned))
}

/// The compiled number or condition.
pub(super) fn quantity(node: &Node, scope: &Scope<'_>) -> Result<Either, Fault> {
    let mut compiler = Compiler { scope, mentioned: Vec::new() };
    match compiler.part(node)? {
        Part::Condition(condition) => Ok(Either::Condition(condition)),
        _ => compiler.number(node).map(Either::Number),
    }
}

struct Compiler<'a> {
    scope: &'a Scope<'a>,
    mentioned: Vec<usize>,
}

/// A compiled part, by its type.
enum Part {
    Number(Number),
    Condition(Condition),
    /// A parameter whose options are not all numbers.
    Labelled(usize),
    Text(String),
}

impl Compiler<'_> {
    fn condition(&mut self, node: &Node) -> Result<Condition, Fault> {
        match self.part(node)? {
            Part::Condition(condition) => Ok(condition),
            Part::Number(_) => Fault::new(node.column, "expected a condition such as `x < 3`, got a number"),
            Part::Labelled(parameter) => {
                let Parameter { name, domain, .. } = &self.scope.parameters[parameter];
                let first = domain.options().first().map_or_else(String::new, quoted);
                Fault::new(node.column, format!("expected a condition such as `{name} == {first}`"))
            }
            Part::Text(text) => Fault::new(
                node.column,
                format!("expected a condition such as `x < 3`, got the text '{text}'"),
            ),
        }
    }

    fn number(&mut self, node: &Node) -> Result<Number, Fault> {
        match self.part(node)? {
            Part::Number(number) => Ok(number),
            Part::Condition(_) => Fault::new(node.column, "expected a number, got a condition"),
            Part::Labelled(parameter) => {
                let Parameter { name, domain, .. } = &self.scope.parameters[parameter];
                Fault::new(
                    node.column,
                    format!("expected a number; the options of {name} are {}", option_list(domain)),
                )
            }
            Part::Text(text) => Fault::new(node.column, format!("expected a number, got the text '{text}'")),
        }
    }

    fn numbers(&mut self, nodes: &[Node]) -> Result<Box<[Number]>, Fault> {
        nodes.iter().map(|node| self.number(node)).collect()
    }

    fn conditions(&mut self, nodes: &[Node]) -> Result<Vec<Condition>, Fault> {
        nodes.iter().map(|node| self.condition(node)).collect()
    }

    fn part(&mut self, node: &Node) -> Result<Part, Fault> {
        Ok(match &node.kind {
            Kind::Number(x) => Part::Number(Number::Constant(*x)),
            Kind::Text(text) => Part::Text(text.clone()),
            Kind::Bool(holds) => Part::Condition(Condition::Constant(*holds)),
            Kind::Name(name) => self.name(name, node.column)?,
            Kind::Negate(inner) => Part::Number(match self.number(inner)? {
                Number::Constant(x) => Number::Constant(-x),
                inner => Number::Negate(Box::new(inner)),
            }),
            Kind::Not(inner) => Part::Condition(not(self.condition(inner)?)),
            Kind::Arithmetic(operator, left, right) => {
                let (left, right) = (self.number(left)?, self.number(right)?);
                Part::Number(Number::Arithmetic(*operator, Box::new(left), Box::new(right)))
            }
            Kind::Call(Function::Count, items) => Part::Number(Number::Count(self.conditions(items)?.into())),
            Kind::Call(function, arguments) => {
                Part::Number(Number::Call(*function, self.numbers(arguments)?))
            }
            Kind::And(items) => Part::Condition(Condition::And(self.conditions(items)?.into())),
            Kind::Or(items) => Part::Condition(any(self.conditions(items)?)),
            Kind::Chain(first, links) => {
                let mut left: &Node = first;
                let mut items = Vec::with_capacity(links.len());
                for (comparison, right) in links {
                    items.push(self.compare(*comparison, left, right)?);
                    left = right;
                }
                Part::Condition(if items.len() == 1 { items.remove(0) } else { Condition::And(items.into()) })
            }
            Kind::In(item, items) => {
                let equal = items.iter().map(|other| self.compare(Comparison::Equal, item, other));
                Part::Condition(any(equal.collect::<Result<_, _>>()?))
            }
        })
    }

    fn name(&mut self, name: &str, column: usize) -> Result<Part, Fault> {
        let Some(parameter) = self.scope.index_of(name) else {
            let is_option = |p: &Parameter| {
                p.domain.options().iter().any(|o| matches!(o, Literal::Text(text) if text == name))
            };
            let message = if self.scope.parameters.iter().any(is_option) {
                format!("no parameter is called {name}; write '{name}' if the option is meant")
            } else {
                let known: Vec<&str> =
                    self.scope.parameters.iter().take(12).map(|p| p.name.as_str()).collect();
                format!("no parameter is called {name}; there are {}", known.join(", "))
            };
            return Fault::new(column, message);
        };
        self.mentioned.push(parameter);
        Ok(match &self.scope.parameters[parameter].domain {
            Domain::Float { .. } | Domain::Int { .. } => Part::Number(Number::Parameter(parameter)),
            Domain::Bool => Part::Condition(Condition::Flag(parameter)),
            Domain::Permutation { .. } => {
                return Fault::new(
                    column,
                    format!("{name} is a permutation, which expressions cannot look into"),
                );
            }
            Domain::Ordinal { values } | Domain::Choice { values } => {
                match values.iter().map(Literal::as_f64).collect::<Option<Box<[f64]>>>() {
                    Some(numbers) => {
                        Part::Number(Number::Option { parameter, sorted: numbers.is_sorted(), numbers })
                    }
                    None => Part::Labelled(parameter),
                }
            }
        })
    }

    fn compare(&mut self, comparison: Comparison, left: &Node, right: &Node) -> Result<Condition, Fault> {
        use Comparison::{Equal, Unequal};
        let equality = matches!(comparison, Equal | Unequal);
        let signed = |same: Condition| if comparison == Unequal { not(same) } else { same };
        match (self.part(left)?, self.part(right)?) {
            (Part::Number(a), Part::Number(b)) => {
                if equality {
                    self.check_option(&a, &b, right.column)?;
                    self.check_option(&b, &a, left.column)?;
                }
                Ok(Condition::Compare(comparison, Box::new(a), Box::new(b)))
            }
            (Part::Condition(Condition::Constant(holds)), Part::Labelled(parameter)) if equality => {
                self.option(Equal, parameter, &Literal::Bool(holds), left.column).map(signed)
            }
            (Part::Labelled(parameter), Part::Condition(Condition::Constant(holds))) if equality => {
                self.option(Equal, parameter, &Literal::Bool(holds), right.column).map(signed)
            }
            (Part::Condition(a), Part::Condition(b)) if equality => {
                Ok(signed(Condition::Same(Box::new(a), Box::new(b))))
            }
            (Part::Labelled(parameter), Part::Text(text)) => {
                self.option(comparison, parameter, &Literal::Text(text), right.column)
            }
            (Part::Text(text), Part::Labelled(parameter)) => {
                self.option(comparison.mirrored(), parameter, &Literal::Text(text), left.column)
            }
            (Part::Labelled(parameter), Part::Number(Number::Constant(x))) => {
                self.option(comparison, parameter, &numeral(x), right.column)
            }
            (Part::Number(Number::Constant(x)), Part::Labelled(parameter)) => {
                self.option(comparison.mirrored(), parameter, &numeral(x), left.column)
            }
            (Part::Labelled(parameter), Part::Labelled(other)) if equality => {
                let axis = &self.scope.axes[other];
                let options = self.scope.parameters[parameter].domain.options();
                let options = options.iter().map(|option| axis.option(option)).collect();
                Ok(signed(Condition::SameOption { parameter, other, options }))
            }
            (Part::Number(Number::Option { parameter, .. }), Part::Text(_)) => {
                self.no_option(parameter, right)
            }
            (Part::Text(_), Part::Number(Number::Option { parameter, .. })) => {
                self.no_option(parameter, left)
            }
            (a, b) if equality => Fault::new(right.column, format!("{} cannot equal {}", a.kind(), b.kind())),
            (a, b) => Fault::new(right.column, format!("{} and {} have no order", a.kind(), b.kind())),
        }
    }

    /// Comparison of a parameter's option with a label.
    fn option(
        &self,
        comparison: Comparison,
        parameter: usize,
        label: &Literal,
        column: usize,
    ) -> Result<Condition, Fault> {
        let Parameter { name, domain, .. } = &self.scope.parameters[parameter];
        let Some(index) = self.scope.axes[parameter].option(label) else {
            return Fault::new(
                column,
                format!("{label} is no option of {name}; there are {}", option_list(domain)),
            );
        };
        if !matches!(domain, Domain::Ordinal { .. })
            && !matches!(comparison, Comparison::Equal | Comparison::Unequal)
        {
            return Fault::new(column, format!("the options of {name} have no order; declare it as ordinal"));
        }
        let count = u32::try_from(domain.options().len()).expect("options are counted in u32");
        Ok(match comparison {
            Comparison::Equal => Condition::Option { parameter, options: Box::new([index]) },
            Comparison::Unequal => not(Condition::Option { parameter, options: Box::new([index]) }),
            Comparison::Less => Condition::Option { parameter, options: (0..index).collect() },
            Comparison::AtMost => Condition::Option { parameter, options: (0..=index).collect() },
            Comparison::Greater => Condition::Option { parameter, options: (index + 1..count).collect() },
            Comparison::AtLeast => Condition::Option { parameter, options: (index..count).collect() },
        })
    }

    fn no_option<T>(&self, parameter: usize, text: &Node) -> Result<T, Fault> {
        let Parameter { name, domain, .. } = &self.scope.parameters[parameter];
        Fault::new(text.column, format!("the options of {name} are the numbers {}", option_list(domain)))
    }

    /// A numeric parameter with options never equals a number that is none of them.
    fn check_option(&self, number: &Number, other: &Number, column: usize) -> Result<(), Fault> {
        let (Number::Option { parameter, numbers, .. }, Number::Constant(x)) = (number, other) else {
            return Ok(());
        };
        if numbers.iter().any(|option| at_most(*option, *x) && at_most(*x, *option)) {
            return Ok(());
        }
        let Parameter { name, domain, .. } = &self.scope.parameters[*parameter];
        Fault::new(column, format!("{x} is no option of {name}; there are {}", option_list(domain)))
    }
}

impl Part {
    fn kind(&self) -> &'static str {
        match self {
            Part::Number(_) => "a number",
            Part::Condition(_) => "a condition",
            Part::Labelled(_) => "an option",
            Part::Text(_) => "text",
        }
    }
}

fn not(condition: Condition) -> Condition {
    match condition {
        Condition::Not(inner) => *inner,
        Condition::Constant(holds) => Condition::Constant(!holds),
        other => Condition::Not(Box::new(other)),
    }
}

/// `a or b` is `not (not a and not b)`; options of one parameter become one set.
fn any(items: Vec<Condition>) -> Condition {
    if let Some((parameter, options)) = merged(&items) {
        return Condition::Option { parameter, options };
    }
    not(Condition::And(items.into_iter().map(not).collect()))
}

fn merged(items: &[Condition]) -> Option<(usize, Box<[u32]>)> {
    let Some(Condition::Option { parameter: first, .. }) = items.first() else { return None };
    let mut all = Vec::new();
    for item in items {
        match item {
            Condition::Option { parameter, options } if parameter == first => all.extend_from_slice(options),
            _ => return None,
        }
    }
    all.sort_unstable();
    all.dedup();
    Some((*first, all.into()))
}

/// A number as it was written: 3, not 3.0.
fn numeral(x: f64) -> Literal {
    whole(x).map_or(Literal::Float(x), Literal::Int)
}

fn quoted(literal: &Literal) -> String {
    if let Literal::Text(text) = literal { format!("'{text}'") } else { literal.to_string() }
}

impl Comparison {
    /// The comparison with its sides exchanged.
    fn mirrored(self) -> Self {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::AtMost => Comparison::AtLeast,
            Comparison::Greater => Comparison::Less,
            Comparison::AtLeast => Comparison::AtMost,
            same => same,
        }
    }
}
