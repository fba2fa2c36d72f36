//! `man/` is what `rtts man` writes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{Bench, done};

fn pages(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries.map(|e| (e.file_name().into_string().unwrap(), fs::read_to_string(e.path()).unwrap())).collect()
}

#[test]
fn the_pages_are_in_step_with_the_program() {
    let bench = Bench::new();
    done(&bench.run(&["man", "-o", "pages"]));
    let made = pages(&bench.path("pages"));
    let kept = pages(&Path::new(env!("CARGO_MANIFEST_DIR")).join("man"));
    assert!(made.contains_key("rtts.1") && made.contains_key("rtts-say.1"));
    for (name, page) in &made {
        assert!(kept.get(name) == Some(page), "`man/{name}` is out of step: run `rtts man -o man`");
    }
    assert_eq!(made.len(), kept.len(), "`man/` holds pages that no command has");
}
