//! The settings of a parameter server's job, as the operator writes them.
//!
//! The target checks that accepted settings work in the server, and do not change when they are stored and
//! read back.

use tributary_ps::server::JobSpec;

use crate::finding::sound;
use crate::{Seed, Target};

pub(super) const TARGET: Target = Target {
    name: "settings",
    about: "settings of a parameter server's job",
    max_len: 1024,
    tries: 3000,
    run,
    seeds,
};

fn run(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let Ok(spec) = toml::from_str::<JobSpec>(text) else { return };
    match spec.check() {
        Ok(()) => {
            assert!(!spec.name.contains(['/', '\0']) && !spec.name.starts_with('.') && spec.name.len() <= 64);
            assert!(spec.learning_rate.is_finite() && spec.learning_rate > 0.0);
            assert!(spec.decay > 0.0 && spec.decay <= 1.0);
            let kept = sound(serde_json::to_string(&spec));
            assert_eq!(sound(serde_json::from_str::<JobSpec>(&kept)), spec);
        }
        Err(error) => assert!(error.to_string().contains("job") || error.to_string().contains("name")),
    }
}

fn seeds() -> Vec<Seed> {
    let least =
        "name = \"digits\"\nworkers = 4\npolicy = \"bsp\"\nepoch-iterations = 10\nlearning-rate = 0.1\n";
    let more = "bound = 3\nslack = 2\ndecay = 0.5\nmax-parameters = 1000\ncheckpoint-updates = 5\ngather-seconds = 9\n";
    let adam = "policy = \"a2s\"\n[optimizer]\nname = \"adam\"\n";
    vec![
        ("least".to_owned(), least.into()),
        ("more".to_owned(), [least, more].concat().into()),
        ("adam".to_owned(), [&least.replace("policy = \"bsp\"\n", ""), adam].concat().into()),
    ]
}
