//! P4 programs that compute wrong values.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use tributary_testkit::root;

/// A fault of a P4 program.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mutant {
    /// The first two blocks of lanes are exchanged when a child is added.
    Swaps,
    /// The first block of the earlier sum is lost when a child is added.
    Drops,
    /// The first child's values are stored, except for the first block, which keeps its old values.
    Forgets,
    /// The last byte of a value is lost when a child is added.
    Changes,
}

impl Mutant {
    pub(crate) const ALL: [Self; 4] = [Self::Swaps, Self::Drops, Self::Forgets, Self::Changes];

    /// Returns a folder with the faulty program, in the form of p4c's output.
    pub(crate) fn program(self) -> TempDir {
        let build = root().join("p4/build/256");
        let mut program: Value =
            serde_json::from_slice(&fs::read(build.join("tributary.json")).unwrap()).unwrap();
        match self {
            Self::Swaps => change(&mut program, "values.add", |add| {
                let [first, second] = [13, 16];
                let [one, other] = [first, second].map(|read| add[read]["parameters"][1].clone());
                (add[first]["parameters"][1], add[second]["parameters"][1]) = (other, one);
            }),
            Self::Drops => change(&mut program, "values.add", |add| {
                let own = add[2]["parameters"][0].clone();
                add[2]["parameters"][1] = own;
            }),
            Self::Forgets => change(&mut program, "values.store", |store| store[1] = store[3].clone()),
            Self::Changes => change(&mut program, "values.add", |add| {
                let sum = &mut add[2]["parameters"][1];
                let changed = sum.to_string().replacen("7fffffff\"", "7fffff00\"", 1);
                assert_ne!(sum.to_string(), changed);
                *sum = serde_json::from_str(&changed).unwrap();
            }),
        }
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("tributary.json"), program.to_string()).unwrap();
        fs::copy(build.join("tributary.p4info.txtpb"), folder.path().join("tributary.p4info.txtpb")).unwrap();
        folder
    }
}

/// Changes the actions whose names end with `name`. p4c creates one action for each call in the
/// program.
fn change(program: &mut Value, name: &str, change: impl Fn(&mut Vec<Value>)) {
    let actions = program["actions"].as_array_mut().unwrap();
    let found = actions.iter_mut().filter(|action| action["name"].as_str().unwrap().ends_with(name));
    let changed = found.map(|action| change(action["primitives"].as_array_mut().unwrap())).count();
    assert!(changed > 0, "no action {name}");
}
