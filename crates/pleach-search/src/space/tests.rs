//! Properties of whole spaces.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::Seed;

fn float() -> impl Strategy<Value = Domain> {
    let magnitude = -12..12_i32;
    (any::<bool>(), 0.0..1.0_f64, 0.0..1.0_f64, magnitude.clone(), magnitude).prop_map(
        |(log, a, b, ea, eb)| {
            let (a, b) = ((a + 1e-3) * 10_f64.powi(ea), (b + 1e-3) * 10_f64.powi(eb));
            Domain::Float { low: a.min(b), high: a.max(b), log, step: None }
        },
    )
}

fn grid() -> impl Strategy<Value = Domain> {
    (-1000..1000_i32, 0..2000_u32, 1..50_u32, 0..4_i32, any::<bool>()).prop_map(
        |(low, width, step, digits, odd)| {
            let scale = 10_f64.powi(-digits) * if odd { 1.0 / 3.0 } else { 1.0 };
            let (low, step) = (f64::from(low) * scale, f64::from(step) * scale);
            Domain::Float { low, high: low + f64::from(width) * scale, log: false, step: Some(step) }
        },
    )
}

fn int() -> impl Strategy<Value = Domain> {
    prop_oneof![
        (-1000..1000_i64, 0..5000_i64, 1..40_i64).prop_map(|(low, width, step)| Domain::Int {
            low,
            high: low + width,
            log: false,
            step
        }),
        (any::<i64>(), 0..1_i64 << 49).prop_map(|(low, width)| Domain::Int {
            low: low.min(i64::MAX - width),
            high: low.min(i64::MAX - width) + width,
            log: false,
            step: 1
        }),
        (0..39_u32, 1..40_u32).prop_map(|(a, b)| Domain::Int {
            low: 1 << a.min(b),
            high: 1 << a.max(b),
            log: true,
            step: 1
        }),
    ]
}

fn domain() -> impl Strategy<Value = Domain> {
    prop_oneof![
        float(),
        grid(),
        int(),
        (1..9_i64).prop_map(|n| Domain::Ordinal { values: (0..n).map(|k| Literal::Int(1 << k)).collect() }),
        (1..9_u32).prop_map(|n| Domain::Choice {
            values: (0..n).map(|k| Literal::Text(format!("o{k}"))).collect()
        }),
        Just(Domain::Bool),
        (1..7_u32).prop_map(|n| Domain::Permutation { n }),
    ]
}

/// Spaces of up to 6 parameters `p0…`, some of which depend on the one before.
fn space() -> impl Strategy<Value = Space> {
    prop::collection::vec((domain(), any::<bool>()), 1..7).prop_map(|declared| {
        let mut parameters: Vec<Parameter> = Vec::new();
        for (i, (domain, conditional)) in declared.into_iter().enumerate() {
            let when = parameters.last().filter(|_| conditional).and_then(|before| match &before.domain {
                Domain::Bool => Some(before.name.clone()),
                Domain::Choice { .. } => {
                    Some(format!("{} in ['o0', \"{}\"]", before.name, before.domain.options().last()?))
                }
                Domain::Ordinal { .. } => Some(format!("{} < 8", before.name)),
                _ => None,
            });
            parameters.push(Parameter { name: format!("p{i}"), domain, when });
        }
        Space::new(parameters, &[]).expect("the declarations are valid")
    })
}

fn in_range(space: &Space, point: &Point) -> bool {
    space.point(point.values().to_vec()).as_ref() == Ok(point)
}

proptest! {
    #[test]
    fn decoding_what_was_encoded_gives_the_point_back(space in space(), seed in any::<u64>()) {
        let mut rng = Seed::new(seed).rng(0);
        let point = space.sample(&mut rng, &[]).unwrap();
        let unit_point = space.encode(&point);
        prop_assert!(unit_point.iter().all(|u| (0.0..=1.0).contains(u)));
        let back = space.decode(&unit_point);
        for ((parameter, value), back) in space.parameters().iter().zip(point.values()).zip(back.values()) {
            let (Domain::Float { low, high, log, step: None }, Value::Float(x), Value::Float(y)) = (&parameter.domain, value, back) else {
                prop_assert_eq!(value, back);
                continue;
            };
            let resolution = |low: f64, high: f64| 2.0 * 2.0_f64.powi(-53) * (high - low);
            let ulp = |x: f64| x.abs().next_up() - x.abs();
            if *log {
                prop_assert!((x.ln() - y.ln()).abs() <= resolution(low.ln(), high.ln()) + ulp(x.ln()) + f64::EPSILON, "{x:?} {y:?}");
            } else {
                prop_assert!((x - y).abs() <= resolution(*low, *high) + ulp(*x), "{x:?} {y:?}");
            }
        }
    }

    #[test]
    fn any_coordinates_decode_to_a_point_in_range(space in space(), raw in prop::collection::vec(any::<f64>(), 36)) {
        let point = space.decode(&raw[..space.unit_len()]);
        prop_assert!(in_range(&space, &point));
    }

    #[test]
    fn literals_give_the_active_part_back(space in space(), seed in any::<u64>()) {
        let point = space.sample(&mut Seed::new(seed).rng(0), &[]).unwrap();
        let literals: BTreeMap<String, Literal> =
            space.literals(&point).into_iter().map(|(name, literal)| (name.to_owned(), literal)).collect();
        let back = space.point_from_literals(&literals).unwrap();
        prop_assert_eq!(space.key(&point), space.key(&back));
        prop_assert_eq!(space.literals(&point), space.literals(&back));
    }

    #[test]
    fn keys_tell_active_values_and_nothing_else(space in space(), seed in any::<u64>()) {
        let mut rng = Seed::new(seed).rng(0);
        let (a, b) = (space.sample(&mut rng, &[]).unwrap(), space.sample(&mut rng, &[]).unwrap());
        prop_assert_eq!(space.literals(&a) == space.literals(&b), space.key(&a) == space.key(&b));
        let mixed = a.values().iter().zip(b.values()).enumerate();
        let mixed = mixed.map(|(i, (own, other))| if a.is_active(i) { own } else { other }.clone()).collect();
        prop_assert_eq!(space.key(&space.point(mixed).unwrap()), space.key(&a));
    }

    #[test]
    fn a_mutation_changes_one_active_value(space in space(), seed in any::<u64>()) {
        let mut rng = Seed::new(seed).rng(0);
        let point = space.sample(&mut rng, &[]).unwrap();
        let changed = space.mutate(&point, &mut rng).unwrap();
        prop_assert!(in_range(&space, &changed));
        let differing: Vec<usize> = (0..point.values().len()).filter(|&i| point.values()[i] != changed.values()[i]).collect();
        let movable = (0..point.values().len()).any(|i| point.is_active(i) && !space.inner.axes[i].is_fixed());
        prop_assert_eq!(differing.len(), usize::from(movable));
        prop_assert!(differing.iter().all(|&i| point.is_active(i)));
    }
}

#[test]
fn nth_counts_every_combination_once() {
    let space = Space::new(
        vec![
            Parameter::permutation("order", 4),
            Parameter::bool("flag"),
            Parameter::choice("op", ["a", "b", "c"]).when("flag"),
            Parameter::new("w", Domain::Int { low: -3, high: 5, log: false, step: 4 }),
        ],
        &[],
    )
    .unwrap();
    assert_eq!(space.cardinality(), Some(24 * 2 * 3 * 3));
    let all: Vec<Point> = (0..24 * 2 * 3 * 3).map(|i| space.nth(i)).collect();
    assert!(all.iter().all(|point| in_range(&space, point)));
    for (i, point) in all.iter().enumerate() {
        assert!(all[..i].iter().all(|other| other.values() != point.values()));
    }
    let distinct: std::collections::BTreeSet<Key> = all.iter().map(|point| space.key(point)).collect();
    assert_eq!(distinct.len(), 24 * 3 * (1 + 3));
    assert_eq!(all[1].values()[3], Value::Int(1), "the last parameter changes fastest");
}

#[test]
fn decimal_steps_give_decimal_values() {
    let space = Space::new(
        vec![Parameter::new("x", Domain::Float { low: 0.1, high: 1.0, log: false, step: Some(0.1) })],
        &[],
    )
    .unwrap();
    let values: Vec<f64> = (0..10).map(|i| space.nth(i).values()[0].as_f64().unwrap()).collect();
    assert_eq!(values, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]);
    assert_eq!(space.cardinality(), Some(10));
}

#[test]
fn a_million_options_are_one_lookup_away() {
    let values = (0..1_000_000).map(|i| Literal::Text(format!("option {i}")));
    let space = Space::new(vec![Parameter::choice("op", values)], &["op != 'option 7'"]).unwrap();
    let literals = BTreeMap::from([("op".to_owned(), Literal::from("option 999999"))]);
    let point = space.point_from_literals(&literals).unwrap();
    assert_eq!(point.values(), [Value::Choice(999_999)]);
    assert_eq!(space.decode(&space.encode(&point)), point);
}

#[test]
fn bad_declarations_are_named() {
    let check = |parameter: Parameter, expected: &str| {
        let message = Space::new(vec![parameter.clone()], &[]).unwrap_err().to_string();
        assert!(message.contains(expected), "{parameter:?}: {message}");
    };
    let int = |low, high, log, step| Parameter::new("n", Domain::Int { low, high, log, step });
    let stepped =
        |low, high, log, step| Parameter::new("x", Domain::Float { low, high, log, step: Some(step) });
    check(Parameter::float("x", 1.0, 0.0), "low 1.0 is above high 0.0");
    check(Parameter::float("x", f64::NAN, 0.0), "must be finite");
    check(Parameter::float("x", -1e308, 1e308), "must be finite");
    check(Parameter::log_float("x", 0.0, 1.0), "needs low above 0");
    check(stepped(1.0, 2.0, true, 0.5), "log and step exclude each other");
    check(stepped(1.0, 2.0, false, 0.0), "step must be a positive number");
    check(stepped(0.0, 1.0, false, 1e-300), "more than 2^50 values");
    check(stepped(1e17, 1e17 + 64.0, false, 1.0), "lost in rounding");
    check(int(2, 1, false, 1), "low 2 is above high 1");
    check(int(0, 9, false, 0), "step must be at least 1");
    check(int(0, 9, true, 1), "needs low above 0");
    check(int(1, 9, true, 2), "log and step exclude each other");
    check(int(1, 1 << 50, true, 1), "ends at 2^40");
    check(int(i64::MIN, i64::MAX, false, 1), "more than 2^50 values");
    check(Parameter::choice("c", Vec::<&str>::new()), "at least one option");
    check(Parameter::choice("c", [Literal::Int(1), Literal::Float(1.0)]), "listed twice");
    check(Parameter::choice("c", [Literal::List(vec![0])]), "is a list");
    check(Parameter::permutation("p", 0), "orders 1 to");
    check(Parameter::bool("2x"), "a letter or underscore");
    check(Parameter::bool("and"), "a word of the expression language");
    check(Parameter::bool("x").when("x"), "depends on itself");
    check(Parameter::bool("x").when("y"), "no parameter is called y");
}

#[test]
fn literals_are_checked() {
    let space = Space::new(
        vec![
            Parameter::choice("opt", ["sgd", "adamw"]),
            Parameter::float("beta", 0.0, 1.0).when("opt == 'adamw'"),
            Parameter::int("width", 1, 64),
            Parameter::permutation("order", 3),
        ],
        &["width <= 32"],
    )
    .unwrap();
    let check = |changes: &[(&str, Option<Literal>)], expected: &str| {
        let mut literals = BTreeMap::from([
            ("opt".to_owned(), Literal::from("sgd")),
            ("width".to_owned(), Literal::Float(8.0)),
            ("order".to_owned(), Literal::List(vec![2, 0, 1])),
        ]);
        for (name, literal) in changes {
            match literal {
                Some(literal) => literals.insert((*name).to_owned(), literal.clone()),
                None => literals.remove(*name),
            };
        }
        let got = match space.point_from_literals(&literals) {
            Ok(point) => format!("{:?}", space.literals(&point)),
            Err(error) => error.to_string(),
        };
        assert!(got.contains(expected), "{changes:?}: {got}");
    };
    check(&[], r#"[("opt", Text("sgd")), ("width", Int(8)), ("order", List([2, 0, 1]))]"#);
    check(&[("opt", Some(Literal::from("adam")))], "opt = adam: the options are sgd, adamw");
    check(
        &[("opt", Some(Literal::from("adamw")))],
        "beta = nothing: a value is needed since `opt == 'adamw'` holds",
    );
    check(&[("beta", Some(Literal::Float(0.5)))], "beta = 0.5: it only exists where `opt == 'adamw'` holds");
    check(&[("width", None)], "width = nothing: a value is needed");
    check(&[("width", Some(Literal::Int(65)))], "width = 65: outside 1..=64");
    check(&[("width", Some(Literal::Float(1.5)))], "width = 1.5: expected a whole number");
    check(&[("width", Some(Literal::Int(33)))], "breaks the known constraint `width <= 32`");
    check(&[("order", Some(Literal::List(vec![0, 0, 1])))], "not an order of the numbers 0 to 2");
    check(&[("order", Some(Literal::Bool(true)))], "expected a permutation");
    check(&[("depth", Some(Literal::Int(1)))], "there is no such parameter");
}

#[test]
fn one_point_and_no_parameters_are_spaces_too() {
    let one =
        Space::new(vec![Parameter::float("x", 2.0, 2.0), Parameter::choice("c", ["only"])], &[]).unwrap();
    assert_eq!((one.cardinality(), one.unit_cells(0)), (Some(1), Some(1)));
    let mut rng = Seed::new(0).rng(0);
    let point = one.sample(&mut rng, &[]).unwrap();
    assert_eq!(point.values(), [Value::Float(2.0), Value::Choice(0)]);
    assert_eq!(one.mutate(&point, &mut rng), Ok(point));
    let none = Space::new(Vec::new(), &[]).unwrap();
    assert_eq!((none.cardinality(), none.unit_len()), (Some(1), 0));
    assert_eq!(none.sample(&mut rng, &[]).unwrap(), none.nth(0));
}

#[test]
fn conditions_follow_their_dependences() {
    let space = Space::new(
        vec![
            Parameter::bool("c").when("b == false"),
            Parameter::bool("b").when("a and not off"),
            Parameter::bool("a"),
            Parameter::bool("off"),
        ],
        &[],
    )
    .unwrap();
    let active = |values: [bool; 4]| {
        let point = space.point(values.into_iter().map(Value::Bool).collect()).unwrap();
        [0, 1, 2, 3].map(|i| point.is_active(i))
    };
    assert_eq!(active([true, false, true, false]), [true, true, true, true]);
    assert_eq!(active([true, true, true, false]), [false, true, true, true]);
    assert_eq!(active([true, false, false, false]), [false, false, true, true], "absent is not active");
}

#[test]
fn parameters_are_read_and_written_as_tables() {
    let check = |text: &str, expected: Result<Parameter, &str>| {
        let got: Result<Parameter, _> = serde_json::from_str(text);
        match (got, expected) {
            (Ok(got), Ok(expected)) => {
                assert_eq!(got, expected);
                let written = serde_json::to_string(&got).unwrap();
                assert_eq!(serde_json::from_str::<Parameter>(&written).unwrap(), expected, "{written}");
            }
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{text}: {error}"),
            (got, _) => panic!("{text}: {got:?}"),
        }
    };
    check(r#"{"name": "x", "type": "float", "low": 0, "high": 1}"#, Ok(Parameter::float("x", 0.0, 1.0)));
    check(
        r#"{"name": "x", "type": "float", "low": 1e-5, "high": 1, "log": true}"#,
        Ok(Parameter::log_float("x", 1e-5, 1.0)),
    );
    check(
        r#"{"name": "n", "type": "int", "low": 1, "high": 8, "when": "x > 0"}"#,
        Ok(Parameter::int("n", 1, 8).when("x > 0")),
    );
    check(
        r#"{"name": "c", "type": "choice", "values": ["a", 1, 0.5, true]}"#,
        Ok(Parameter::choice(
            "c",
            [Literal::from("a"), Literal::Int(1), Literal::Float(0.5), Literal::Bool(true)],
        )),
    );
    check(r#"{"name": "b", "type": "bool"}"#, Ok(Parameter::bool("b")));
    check(r#"{"name": "p", "type": "permutation", "n": 8}"#, Ok(Parameter::permutation("p", 8)));
    check(r#"{"name": "n", "type": "int", "low": 1, "high": 8, "stpe": 2}"#, Err("unknown field `stpe`"));
    check(r#"{"name": "n", "type": "int", "low": 1}"#, Err("missing field `high`"));
    check(r#"{"name": "n", "type": "normal", "low": 1}"#, Err("unknown variant `normal`"));
}
