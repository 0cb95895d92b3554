//! Tests of the language as a whole.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::space::Axis;
use crate::{Literal, Parameter, Value};

/// The parameters of these tests; `absent` never exists.
struct World {
    parameters: Vec<Parameter>,
    axes: Vec<Axis>,
    by_name: HashMap<String, usize>,
}

impl World {
    fn new() -> Self {
        let parameters = vec![
            Parameter::float("x", -2.0, 3.0),
            Parameter::int("n", -3, 9),
            Parameter::ordinal("bits", [2_i64, 4, 8, 16]),
            Parameter::choice("opt", ["sgd", "adamw", "lion"]),
            Parameter::ordinal("size", ["small", "medium", "large"]),
            Parameter::bool("flag"),
            Parameter::choice("other", [Literal::from("lion"), Literal::Bool(true), Literal::Int(3)]),
            Parameter::permutation("order", 3),
            Parameter::float("absent", 0.0, 1.0),
            Parameter::float("layer.0-lr", 0.0, 1.0),
        ];
        let axes = parameters.iter().map(|p| Axis::new(&p.domain).unwrap()).collect();
        let by_name = parameters.iter().enumerate().map(|(i, p)| (p.name.clone(), i)).collect();
        Self { parameters, axes, by_name }
    }

    fn read(&self, text: &str) -> Result<Expression, Error> {
        Expression::new(
            text,
            &Scope { parameters: &self.parameters, axes: &self.axes, by_name: &self.by_name },
        )
    }

    /// The truth at x = 0.5, n = 6, bits = 8, opt = adamw, size = medium, flag = true, other = lion.
    fn truth(&self, text: &str) -> Truth {
        let values = [
            Value::Float(0.5),
            Value::Int(6),
            Value::Choice(2),
            Value::Choice(1),
            Value::Choice(1),
            Value::Bool(true),
            Value::Choice(0),
            Value::Permutation([0, 1, 2].into()),
            Value::Float(0.0),
            Value::Float(0.25),
        ];
        let active: Vec<bool> = (0..values.len()).map(|i| i != 8).collect();
        let expression = self.read(text).unwrap_or_else(|error| panic!("{error}"));
        expression.truth(View { values: &values, active: Some(&active) })
    }
}

#[test]
fn expressions_have_the_expected_truth() {
    let world = World::new();
    let cases: [(Truth, &[&str]); 4] = [
        (
            Truth::True,
            &[
                "1 + 2 * 3 == 7",
                "(1 + 2) * 3 == 9",
                "-2 ** 2 == -4",
                "2 ** 3 ** 2 == 512",
                "2 ** -1 == .5",
                "7 - 2 - 1 == 4",
                "8 / 4 / 2 == 1",
                "-7 % 4 == 1 and 7 % -4 == -1",
                "+n == 6",
                "n*bits==48",
                "0 < x < 1",
                "not 1 < x < 2",
                "n in [1, 2 * 3]",
                "n not in [1, 2]",
                "opt == 'adamw' and opt != \"sgd\"",
                "'adamw' == opt",
                "opt in ['lion', 'adamw']",
                "size < 'large' and size >= 'medium' and 'small' < size",
                "flag and true",
                "flag == (n > 3)",
                "(n < 3) != flag",
                "opt != other",
                "other == 'lion' and other != true and other != 3",
                "bits in [8, 16]",
                "min(3, x, n) == x and max(x, n) == 6",
                "abs(-x) == 0.5 and floor(x) == 0 and ceil(x) == 1",
                "sqrt(16) == 4 and log(1) == 0 and exp(0) == 1",
                "0.1 + 0.2 <= 0.3 and 0.1 + 0.2 == 0.3 and not 0.1 + 0.2 > 0.3",
                "1e15 != 1e15 + 1",
                "layer.0-lr == 0.25",
                "n-1 == 5",
                "n == 7 or absent > 1 or flag",
                "1 / 0 > 5",
                "count(flag, n > 3, opt == 'sgd', absent > 0) == 2",
                "2 * count(opt == 'adamw') + count(absent < 1 or flag) == 3",
            ],
        ),
        (
            Truth::False,
            &[
                "n == 7",
                "not flag",
                "absent > 0 and n == 7",
                "opt in ['lion', 'sgd']",
                "size > 'medium'",
                "log(-1) > 0 and false",
                "1 / 0 < 5",
                "opt == other",
            ],
        ),
        (
            Truth::Absent,
            &[
                "absent > 0",
                "not absent > 0",
                "absent + n == absent + n",
                "absent > 0 or n == 7",
                "absent > 0 and flag",
                "absent in [1]",
            ],
        ),
        (
            Truth::Undefined,
            &[
                "sqrt(-x) < 1",
                "not sqrt(-x) < 1",
                "log(-n) == log(-n)",
                "0 / 0 in [1]",
                "0/0 > 1 or absent > 1",
                "min(0/0, 1) == 1",
                "(0/0) ** 0 == 1",
                "count(flag, 0/0 > 1) > 0",
            ],
        ),
    ];
    for (expected, texts) in cases {
        for text in texts {
            assert_eq!(world.truth(text), expected, "{text}");
        }
    }
}

#[test]
fn faults_are_located_and_explained() {
    let world = World::new();
    let cases = [
        ("n = 3", 3, "write == to compare"),
        ("n ! 3", 3, "write `not`"),
        ("n > 1 && flag", 7, "write `and`"),
        ("n > 1 || flag", 7, "write `or`"),
        ("n <", 4, "expected a value, got the end"),
        ("(n < 3", 7, "expected `)`, got the end"),
        ("n < 3 4", 7, "expected an operator, got 4"),
        ("opt == 'sgd' and 'é' == width", 25, "no parameter is called width; there are x, n"),
        ("opt == adamw", 8, "write 'adamw' if the option is meant"),
        ("opt == 'adam'", 8, "adam is no option of opt; there are sgd, adamw, lion"),
        ("opt == 3", 8, "3 is no option of opt"),
        ("bits == 3", 9, "3 is no option of bits; there are 2, 4, 8, 16"),
        ("3 in [bits]", 1, "3 is no option of bits"),
        ("bits == 'two'", 9, "the options of bits are the numbers 2, 4, 8, 16"),
        ("opt < 'sgd'", 7, "the options of opt have no order"),
        ("opt", 1, "expected a condition such as `opt == 'sgd'`"),
        ("n + 1", 1, "expected a condition such as `x < 3`, got a number"),
        ("'text'", 1, "got the text 'text'"),
        ("opt + 1 == 2", 1, "expected a number; the options of opt are"),
        ("flag + 1 == 2", 1, "expected a number, got a condition"),
        ("flag < true", 8, "a condition and a condition have no order"),
        ("n == 'six'", 6, "a number cannot equal text"),
        ("n == flag", 6, "a number cannot equal a condition"),
        ("order == 3", 1, "order is a permutation"),
        ("mean(n, 1) > 2", 1, "no function is called mean; there are min, max"),
        ("sqrt(n, 1) > 2", 1, "sqrt takes one argument, got 2"),
        ("max(n) > 2", 1, "max takes two or more arguments, got 1"),
        ("count(n) > 2", 7, "expected a condition such as `x < 3`, got a number"),
        ("count(flag)", 1, "expected a condition such as `x < 3`, got a number"),
        ("n in 3", 6, "expected `[`"),
        ("n in []", 7, "expected a value"),
        ("n < 1e999", 5, "1e999 is not a number"),
        ("n < 3 and", 10, "expected a value, got the end"),
        ("and", 1, "expected a value before `and`"),
        ("n ¬ 3", 3, "¬ has no meaning here"),
        ("opt == 'sgd", 8, "the quote is not closed"),
        ("", 1, "expected a value, got the end"),
    ];
    for (text, at, expected) in cases {
        match world.read(text) {
            Err(Error::Expression { column, message, .. }) => {
                assert!(message.contains(expected), "{text}: {message}");
                assert_eq!(column, at, "{text}: {message}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn depth_is_bounded_and_long_sums_are_not_deep() {
    let world = World::new();
    let message = |text: String| world.read(&text).unwrap_err().to_string();
    for opening in ["(", "not ", "-", "2 ** ", "max(1, "] {
        assert!(message(format!("{}n", opening.repeat(100_000))).contains("nested too deeply"));
    }
    assert!(message(format!("n{} < 1", " + n".repeat(100_000))).contains("longer than 1000 terms"));
    assert!(world.read(&format!("n{} < 1", " + n".repeat(900))).is_ok());
    assert!(world.read(&format!("flag{}", " and flag".repeat(10_000))).is_ok());
}

fn number() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("x".to_owned()),
        Just("n".to_owned()),
        Just("bits".to_owned()),
        Just("absent".to_owned()),
        (-4..5_i32).prop_map(|k| format!("({k})")),
        (-3.0..3.0_f64).prop_map(|x| format!("({x:?})")),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let binary = prop::sample::select(vec!["+", "-", "*", "/", "%", "**"]);
        let function = prop::sample::select(vec!["abs", "floor", "ceil", "sqrt", "log", "exp"]);
        prop_oneof![
            (inner.clone(), binary, inner.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            (function, inner.clone()).prop_map(|(f, a)| format!("{f}({a})")),
            (inner.clone(), inner.clone(), any::<bool>())
                .prop_map(|(a, b, min)| format!("{}({a}, {b})", if min { "min" } else { "max" })),
            inner.prop_map(|a| format!("(-{a})")),
        ]
    })
}

fn condition() -> impl Strategy<Value = String> {
    let comparison = prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    let leaf = prop_oneof![
        4 => (number(), comparison.clone(), number()).prop_map(|(a, op, b)| {
            // A number that is no option is refused on its own, so it is not alone here.
            format!("{a} + 0 {op} {b} + 0")
        }),
        1 => (comparison, prop::sample::select(vec!["small", "medium", "large"])).prop_map(|(op, size)| format!("size {op} '{size}'")),
        1 => prop::sample::select(vec!["flag", "opt == 'sgd'", "opt in ['sgd', 'lion']", "opt == other", "other != true"]).prop_map(str::to_owned),
    ];
    leaf.prop_recursive(3, 12, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} and {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} or {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("(({a}) == ({b}))")),
            (inner.clone(), inner.clone(), 0..3_u8).prop_map(|(a, b, k)| format!("(count({a}, {b}) >= {k})")),
            inner.prop_map(|a| format!("(not {a})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC*", code in "[xn flagoptrde0-9.()<>=!+*/%,'\\[\\]-]{0,60}") {
        let world = World::new();
        let _ = world.read(&text);
        let _ = world.read(&code);
    }

    #[test]
    fn regions_enclose_their_points(
        text in condition(),
        ends in prop::collection::vec((0.0..=1.0_f64, 0.0..=1.0_f64, 0.0..=1.0_f64, 0..4_u8), 10),
    ) {
        let world = World::new();
        let expression = world.read(&text).unwrap();
        let (mut sides, mut exists, mut values, mut active) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (axis, &(a, b, inside, existence)) in world.axes.iter().zip(&ends) {
            let (low, high) = (a.min(b), a.max(b));
            let u = if inside == 0.0 { low } else { low + inside * (high - low) };
            let (side, value) = match (axis.cells(), axis) {
                (Some(_), _) => {
                    let (first, last) = (axis.cell_at(low), axis.cell_at(high));
                    (Side::Cells { first, last }, axis.value_at(axis.cell_at(u).clamp(first, last)))
                }
                (None, Axis::Linear { .. }) => {
                    let number = |u: f64| 5.0 * u - 2.0;
                    (Side::Reals { low: number(low), high: number(high) }, Value::Float(number(u).clamp(number(low), number(high))))
                }
                _ => (Side::Cells { first: 0, last: 0 }, Value::Permutation([0, 1, 2].into())),
            };
            sides.push(side);
            values.push(value);
            let (possible, is_active) = match existence {
                0 => (Truths::only(Truth::False), false),
                1 => (Truths::only(Truth::True).union(Truths::only(Truth::False)), a < b),
                _ => (Truths::only(Truth::True), true),
            };
            exists.push(possible);
            active.push(is_active);
        }
        let slots: Vec<usize> = (0..10).collect();
        let region = Region { axes: &world.axes, slots: &slots, sides: &sides, exists: &exists };
        let truth = expression.truth(View { values: &values, active: Some(&active) });
        let truths = expression.over(&region);
        prop_assert!(truths.contains(truth), "{} is {:?} at {:?}, not in {:?} over {:?}", text, truth, values, truths, sides);
    }
}
