use crate::{
    Event, Goal, Measurement, Metric, Options, Outcome, Parameter, Part, Problem, Search, Seed, Space,
};

fn fresh() -> Search {
    let sizes: Vec<i64> = (0..6).collect();
    let parameters = (0..4).map(|i| Parameter::ordinal(&format!("x{i}"), sizes.clone())).collect();
    let space = Space::new(parameters, &[]).unwrap();
    let problem = Problem::new(space, vec![Metric::objective("loss", Goal::Min)]).unwrap();
    Search::new(problem, "lanas", &Options::new(), Seed::new(1)).unwrap()
}

/// What can be seen of the tree, with the way of the first trials.
fn seen(search: &Search) -> String {
    let tree = search.partition().unwrap();
    let ways: Vec<_> = (0..10).map(|number| tree.path(search.history(), number)).collect();
    let node = |node: &Part| {
        format!(
            "{:?} {:?} {:?} {:?}",
            node.split,
            (node.children, node.selected),
            (node.value, node.bound),
            [node.points as u64, node.pending as u64, node.best.unwrap_or(u64::MAX),]
        )
    };
    let nodes: Vec<String> = tree.nodes.iter().map(node).collect();
    format!("{nodes:?} {} {} {} {ways:?}", tree.asks, tree.asks_below_root, tree.built_at)
}

#[test]
fn the_tree_of_a_finite_space_says_why_a_point_was_chosen() {
    let mut search = fresh();
    assert_eq!(search.partition().unwrap().nodes.len(), 1);
    for _ in 0..60 {
        let before = search.partition().unwrap();
        let number = search.ask(1).unwrap()[0];
        // The point lies in the leaf that was chosen before it was asked for.
        let path = before.path(search.history(), number);
        assert!(path.iter().all(|step| before.nodes[step.node].selected), "{number}: {path:?}");
        let unit_point = search.history().space().encode(&search.history().trial(number).point);
        let loss = unit_point.iter().map(|u| (u - 0.7).powi(2)).sum();
        search.tell(number, Outcome::Measured(Measurement::new(vec![loss]))).unwrap();
    }
    let waiting = search.ask(3).unwrap();
    let tree = search.partition().unwrap();
    assert_eq!((tree.asks, tree.built_at, tree.nodes[0].points, tree.nodes[0].pending), (63, 60, 60, 3));
    assert!((50..63).contains(&tree.asks_below_root), "{}", tree.asks_below_root);
    assert!(tree.nodes.len() > 3);
    assert_eq!(tree.nodes[0].best, search.history().best().map(|best| best.number));
    for node in &tree.nodes {
        let Some([good, bad]) = node.children.map(|children| children.map(|child| &tree.nodes[child])) else {
            continue;
        };
        assert_eq!((node.points, node.pending), (good.points + bad.points, good.pending + bad.pending));
        assert!(node.split.is_some());
        assert!(good.selected || bad.selected == node.selected);
    }
    assert!(waiting.iter().all(|&number| tree.path(search.history(), number).len() > 1));
}

#[test]
fn a_restored_tree_of_a_finite_space_is_the_tree() {
    let mut search = fresh();
    let mut events = Vec::new();
    for number in 0..40 {
        assert_eq!(search.ask(1).unwrap(), [number]);
        let trial = search.history().trial(number);
        events.push(Event::Asked(trial.point.clone(), trial.origin.clone()));
        // Some trials stay pending.
        if number % 8 != 7 {
            let loss = search.history().space().encode(&trial.point).iter().map(|u| (u - 0.3).abs()).sum();
            let outcome = Outcome::Measured(Measurement::new(vec![loss]));
            search.tell(number, outcome.clone()).unwrap();
            events.push(Event::Told(number, outcome));
        }
    }
    let mut replayed = fresh();
    for event in events.clone() {
        match event {
            Event::Asked(point, origin) => {
                replayed.replay(point, origin);
            }
            Event::Told(number, outcome) => {
                replayed.tell(number, outcome).unwrap();
            }
        }
    }
    let mut restored = fresh();
    restored.restore(events, &search.snapshot()).unwrap();
    assert_eq!([seen(&replayed), seen(&restored)], [(); 2].map(|()| seen(&search)));
}
