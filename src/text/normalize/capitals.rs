//! Words in capitals: spelled (`FBI`), read as a name (`NASA`), or only loud (`STOP`).
//!
//! There is no dictionary: short words are spelled unless they are common English, longer ones are read when English
//! could have such a word, judged by the consonants at their start and end. Two lists name the exceptions.

use super::{At, Said};

/// Read as a word although short, and as a name: with a capital.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "AIDS", "ASCII", "BIOS", "CAPTCHA", "COVID", "CUDA", "DRAM", "FIFA", "GIF", "IKEA", "JPEG", "JSON", "LAN", "LASER", "LEGO", "MIDI", "MIPS", "NAFTA", "NASA",
    "NASDAQ", "NATO", "NIMBY", "OPEC", "PIN", "RADAR", "RAM", "ROM", "SARS", "SCUBA", "SIM", "SONAR", "SQUID", "SWAT", "TED", "UEFA", "UNESCO", "UNICEF",
    "WAN", "WASP", "YAML", "YOLO", "ZIP",
];

/// Spelled although English could have such a word.
#[rustfmt::skip]
const SPELLED: &[&str] = &[
    "AARP", "ACLU", "AI", "AIDE", "AKA", "AM", "API", "APIS", "ASAP", "ATM", "BA", "CEO", "CIA", "DIY", "ESPN", "EU", "EULA", "FAQ", "GPU", "HIV", "ICE", "ID", "IDE", "IEEE", "IMAP",
    "IO", "IOS", "IP", "IQ", "ISBN", "ISO", "IT", "LA", "MA", "MIT", "NAACP", "NBA", "OCR", "OEM", "OS", "PA", "PM", "RSVP", "SUV", "UAE", "UCLA", "UFO", "UI", "UK", "UN",
    "UPS", "URL", "US", "USA", "USB", "USC", "USSR", "VIP", "WIFI", "YMCA",
];

/// Common English words of two and three letters: loud rather than spelled.
#[rustfmt::skip]
const COMMON: &[&str] = &[
    "AN", "AS", "AT", "BE", "BY", "DO", "GO", "HE", "IF", "IN", "IS", "ME", "MY", "NO", "OF", "OH", "ON", "OR", "SO", "TO", "UP", "WE",
    "ACT", "ADD", "ALL", "AND", "ANY", "ARE", "ASK", "BAD", "BAG", "BED", "BIG", "BOX", "BOY", "BUS", "BUT", "BUY", "CAN", "CAR", "CAT", "CUT", "DAY", "DID",
    "DOG", "DOT", "EAT", "END", "FAR", "FEW", "FLY", "FOR", "FUN", "GET", "GOD", "GOT", "HAD", "HAS", "HER", "HIM", "HIS", "HOT", "HOW", "ITS", "JOB", "KEY",
    "LAW", "LET", "LOT", "LOW", "MAN", "MAY", "MEN", "MOM", "NEW", "NOT", "NOW", "OFF", "OLD", "ONE", "OUR", "OUT", "OWN", "PAY", "PUT", "RED", "RUN", "SAD",
    "SAW", "SAY", "SEE", "SET", "SHE", "SIT", "SIX", "SUN", "TAX", "TEA", "TEN", "THE", "TOO", "TOP", "TRY", "TWO", "USE", "VAN", "WAR", "WAS", "WAY", "WET",
    "WHY", "WIN", "WON", "YES", "YET", "YOU",
];

/// Consonants that may start an English word, besides single ones.
#[rustfmt::skip]
const STARTS: &[&str] = &[
    "bl", "br", "ch", "chr", "cl", "cr", "dr", "dw", "fl", "fr", "gh", "gl", "gn", "gr", "kn", "ph", "pl", "pr", "rh", "sc", "sch", "scr", "sh", "shr", "sk", "sl",
    "sm", "sn", "sp", "spl", "spr", "st", "str", "sw", "th", "thr", "tr", "tw", "wh", "wr",
];

/// Consonants that may end one, besides single ones.
#[rustfmt::skip]
const ENDS: &[&str] = &[
    "bs", "bt", "ch", "cht", "chts", "ck", "cks", "cs", "ct", "cts", "ds", "dth", "ff", "ffs", "fs", "ft", "fts", "gh", "ght", "ghts", "gn", "gns", "gs", "hs", "ks", "lb", "ld", "lds", "lf", "lk", "lks",
    "ll", "lls", "lm", "lms", "lp", "lps", "ls", "lt", "lth", "lts", "mb", "mbs", "mn", "mp", "mps", "mpt", "ms", "nch", "nd", "nds", "ng", "ngs", "ngth", "ngths", "nk", "nks", "nn", "ns", "nt", "nth", "nths", "nts",
    "ph", "phs", "ps", "pt", "pts", "rb", "rbs", "rch", "rd", "rds", "rf", "rg", "rk", "rks", "rl", "rls", "rld", "rm", "rms", "rn", "rns", "rp", "rps", "rr", "rs", "rst", "rsts", "rt", "rth", "rths", "rts",
    "sh", "sk", "sks", "sm", "sms", "sp", "sps", "ss", "st", "sts", "tch", "th", "thm", "thms", "ths", "ts", "tt", "wd", "wds", "wk", "wl", "wls", "wn", "wns", "ws", "wth", "xt", "xts", "zz",
];

/// All words of two letters and more are in capitals, and there are at least three.
pub(super) fn is_shouting(text: &str) -> bool {
    let mut words = 0;
    for word in text.split(|c: char| !c.is_alphabetic()).filter(|word| word.len() > 1) {
        if !word.bytes().all(|b| b.is_ascii_uppercase()) {
            return false;
        }
        words += 1;
    }
    words >= 3
}

pub(super) fn capitals(at: &At<'_>) -> Option<Said> {
    if !at.starts_word() {
        return None;
    }
    let length = super::word_length(at.rest());
    let word = &at.rest()[..length];
    let (stem, tail) = word.split_once('\'').map_or((word, ""), |(stem, _)| (stem, &word[stem.len()..]));
    // `PCs`, `NGOs`: the s makes a plural.
    let singular = stem.strip_suffix('s').filter(|stem| stem.len() > 1 && loud(stem));
    if let Some(singular) = singular {
        let said = say(singular, at);
        let words = if said.contains(' ') { format!("{said}'s{tail}") } else { format!("{said}s{tail}") };
        return Some(Said { bytes: length, words });
    }
    let whole_loud = loud(stem) && tail.bytes().all(|b| b == b'\'' || b.is_ascii_uppercase());
    if whole_loud && tail.len() > 2 || whole_loud && stem.len() == 1 && !tail.is_empty() {
        // `DON'T`, `YOU'LL`, `I'M`
        let lower = word.to_ascii_lowercase();
        let words = if stem == "I" { format!("I{}", &lower[1..]) } else { lower };
        return Some(Said { bytes: length, words });
    }
    if stem.len() < 2 || !loud(stem) {
        return None;
    }
    Some(Said { bytes: length, words: format!("{}{}", say(stem, at), tail.to_ascii_lowercase()) })
}

fn loud(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|b| b.is_ascii_uppercase())
}

/// A word in capitals as it is said.
fn say(word: &str, at: &At<'_>) -> String {
    let lower = word.to_ascii_lowercase();
    let spelled = || word.chars().map(String::from).collect::<Vec<_>>().join(" ");
    if NAMES.contains(&word) {
        return format!("{}{}", &word[..1], &lower[1..]);
    }
    let loud_it = at.shouting && matches!(word, "IT" | "US" | "AM" | "PA" | "MA" | "ICE" | "ID");
    if SPELLED.contains(&word) && !loud_it {
        return spelled();
    }
    let read = match word.len() {
        0..=3 => loud_it || COMMON.contains(&word) || at.shouting && sounds_english(&lower),
        _ => sounds_english(&lower),
    };
    if !read {
        return spelled();
    }
    let first = at.before().trim_end();
    let opens = first.is_empty() || first.ends_with(['.', '!', '?']);
    if opens { format!("{}{}", &word[..1], &lower[1..]) } else { lower }
}

/// Vowels where English puts them: every run of consonants at the ends is one that English words have.
fn sounds_english(word: &str) -> bool {
    let vowel = |c: char| "aeiouy".contains(c);
    let Some(first) = word.find(vowel) else { return false };
    let last = word.rfind(vowel).unwrap_or(first);
    let (start, end) = (&word[..first], &word[last + 1..]);
    let single = start.len() < 2 && start != "q";
    // The `u` of `qu` is no vowel.
    let start_fits = single || matches!(start, "q" | "sq") && word[first..].starts_with('u') || STARTS.contains(&start);
    let end_fits = end.len() < 2 && !matches!(end, "j" | "q" | "v") || ENDS.contains(&end);
    let longest_run = |is: &dyn Fn(char) -> bool| word.split(|c| !is(c)).map(str::len).max().unwrap_or(0);
    start_fits && end_fits && longest_run(&|c| !vowel(c)) <= 5 && longest_run(&vowel) <= 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn english_words_and_others() {
        for word in [
            "stop",
            "strengths",
            "queen",
            "rhythm",
            "world",
            "attention",
            "please",
            "knights",
            "squad",
            "yacht",
            "months",
        ] {
            assert!(sounds_english(word), "{word}");
        }
        for word in ["http", "html", "xml", "nvfp", "mqtt", "ntsc", "rsvp", "sdlc", "phd", "ibm", "aeiou"] {
            assert!(!sounds_english(word), "{word}");
        }
    }
}
