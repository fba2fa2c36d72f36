//! The lines of the report, apart from the machine.

use super::configuration::variables;
use super::*;

fn of(pairs: &[(&str, &str)]) -> Vec<Check> {
    variables(pairs.iter().map(|(name, value)| (name.into(), value.into())).collect())
}

#[test]
fn secrets_are_not_shown() {
    let checks = of(&[
        ("HF_TOKEN", "hf_secret"),
        ("HF_ENDPOINT", "https://me:hf_secret@mirror:8/x"),
        ("OTHER_TOKEN", "hf_secret"),
        ("RTTS_DEVICE", "cpu"),
    ]);
    let text = text(&checks);
    assert_eq!(checks.len(), 1, "{text}");
    assert!(!text.contains("secret") && !text.contains("OTHER_TOKEN"), "{text}");
    for part in ["HF_TOKEN (set, not shown)", "HF_ENDPOINT=https://…@mirror:8/x", "RTTS_DEVICE=cpu"] {
        assert!(text.contains(part), "{text}\nlacks {part}");
    }
}

#[test]
fn misspelled_variables_are_noticed() {
    let checks = of(&[("RTTS_MODLE", "x"), ("RTTS_MODEL", "")]);
    assert_eq!((checks[0].state, checks[0].text.as_str()), (State::Ok, "none in force"));
    assert_eq!((checks[1].state, checks[1].cure.as_deref()), (State::Note, Some("did you mean `RTTS_MODEL`?")));
    assert_eq!(checks.len(), 2);
}

#[test]
fn lines_stand_in_columns() {
    let checks = [
        Check::ok("cache", "here"),
        Check::problem("settings", "first\nsecond").cure("mend it"),
        Check::note("gpu", "none"),
    ];
    let expected = "\
ok       cache     here
problem  settings  first
                   second
                   cure: mend it
note     gpu       none";
    assert_eq!(text(&checks), expected);
}
