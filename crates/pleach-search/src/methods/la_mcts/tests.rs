use super::*;
use crate::testing::check;

#[test]
fn trees_of_several_levels_conform() {
    let small = Entry {
        // A few dozen trials do not find more in small regions than at random.
        learns: false,
        ..row("la-mcts+slice", "", true, |history, options| {
            let mut options = options.clone();
            options.insert("leaf".into(), 8.into());
            build("la-mcts+slice", "random", history, &options)
        })
    };
    assert_eq!(check(&small), Vec::<&str>::new());
}
