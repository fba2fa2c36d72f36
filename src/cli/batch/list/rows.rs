//! Lists with settings: a JSON object a line, and tables with a header (CSV after RFC 4180, TSV without quoting).

use std::path::PathBuf;

use serde::Deserialize;

use super::{Line, Own};
use crate::cli::voice::{cfg, seconds, steps, temperature, words};
use crate::error::{Error, Result};
use crate::suggest::nearest;

/// The columns of a table, which are the keys of an object.
const COLUMNS: &str = "the columns are text, name, voice, style, seed, temperature, top_k, max_seconds, cfg, steps, \
                       reference, prompt_audio and prompt_text";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Object {
    text: String,
    name: Option<String>,
    voice: Option<String>,
    style: Option<String>,
    seed: Option<u64>,
    temperature: Option<serde_json::Number>,
    top_k: Option<usize>,
    max_seconds: Option<serde_json::Number>,
    cfg: Option<serde_json::Number>,
    steps: Option<serde_json::Number>,
    reference: Option<PathBuf>,
    prompt_audio: Option<PathBuf>,
    prompt_text: Option<String>,
}

/// An object for every line that is not blank.
pub fn json(list: &str, place: &str) -> Result<Vec<Line>> {
    // Files put one after the other keep their byte order marks.
    let lines = list.lines().map(|line| line.trim_start_matches('\u{FEFF}')).enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(i, line)| object(i + 1, line).map_err(|e| at(place, i + 1, e))).collect()
}

fn object(n: usize, line: &str) -> Result<Line, String> {
    let object: Object = serde_json::from_str(line).map_err(|e| {
        // The line within the line is always 1.
        let text = e.to_string();
        let why = text.split(" at line 1 column").next().unwrap_or_default().to_owned();
        match unknown(&why) {
            Some(name) => strange("key", name),
            None if line.trim_start().starts_with('{') => why,
            None => format!("no JSON object: {why}"),
        }
    })?;
    let number = |value: Option<serde_json::Number>, check: fn(&str) -> Result<f32, String>, key: &str| {
        value.map(|v| check(&v.to_string()).map_err(|why| format!("`{key}`: {why}"))).transpose()
    };
    let own = Own {
        voice: object.voice,
        style: object.style,
        seed: object.seed,
        temperature: number(object.temperature, temperature, "temperature")?,
        top_k: object.top_k,
        max_seconds: number(object.max_seconds, seconds, "max_seconds")?,
        cfg: number(object.cfg, cfg, "cfg")?,
        steps: object.steps.map(|n| steps(&n.to_string()).map_err(|why| format!("`steps`: {why}"))).transpose()?,
        reference: object.reference,
        prompt: prompt(object.prompt_audio, object.prompt_text)?,
    };
    Ok(Line { n, text: object.text, name: object.name, own })
}

/// A recording to continue and its words, which belong together.
fn prompt(audio: Option<PathBuf>, text: Option<String>) -> Result<Option<(PathBuf, String)>, String> {
    match (audio, text) {
        (Some(audio), Some(text)) => {
            let text = words(&text).map_err(|why| format!("`prompt_text`: {why}"))?;
            Ok(Some((audio, text)))
        }
        (None, None) => Ok(None),
        (Some(_), None) => Err("`prompt_audio` without `prompt_text`, which gives its words".into()),
        (None, Some(_)) => Err("`prompt_text` without `prompt_audio`, whose words it gives".into()),
    }
}

/// A record of a table, with the line of the file on which it begins.
type Record = (usize, Vec<String>);

/// The records of a table with tabs between its cells.
pub fn tsv(list: &str) -> Vec<Record> {
    let records = list.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    records.map(|(i, line)| (i + 1, line.split('\t').map(str::to_owned).collect())).collect()
}

/// The records of a table with commas between its cells; a quoted cell may hold commas, line ends and doubled quotes.
pub fn csv(list: &str, place: &str) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    let (mut line, mut begun) = (1, 1);
    let (mut cells, mut cell) = (Vec::new(), String::new());
    let (mut quoted, mut closed) = (false, false);
    let mut letters = list.chars().peekable();
    while let Some(letter) = letters.next() {
        line += usize::from(letter == '\n');
        match letter {
            '"' if quoted && letters.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' if quoted => (quoted, closed) = (false, true),
            _ if quoted => cell.push(letter),
            '"' if cell.is_empty() && !closed => quoted = true,
            ',' => {
                cells.push(std::mem::take(&mut cell));
                closed = false;
            }
            '\n' => {
                cells.push(std::mem::take(&mut cell));
                records.push((begun, std::mem::take(&mut cells)));
                (begun, closed) = (line, false);
            }
            _ if closed && !letter.is_whitespace() => {
                return Err(at(place, line, "a quoted cell goes on after its closing quote".into()));
            }
            _ if closed => {}
            _ => cell.push(letter),
        }
    }
    if quoted {
        return Err(at(place, begun, "a quote is never closed".into()));
    }
    if !cell.is_empty() || !cells.is_empty() {
        cells.push(cell);
        records.push((begun, cells));
    }
    records.retain(|(_, cells)| cells.iter().any(|cell| !cell.trim().is_empty()));
    Ok(records)
}

/// The lines of a table, whose first record names the columns. Lines are numbered by record; messages name the line of
/// the file.
pub fn table(records: Vec<Record>, place: &str) -> Result<Vec<Line>> {
    let mut records = records.into_iter();
    let Some((line, header)) = records.next() else { return Ok(Vec::new()) };
    let header: Vec<String> = header.iter().map(|name| name.trim().to_lowercase()).collect();
    if !header.iter().any(|name| name == "text") {
        return Err(at(place, line, "the header names no column `text`".into()));
    }
    let mut lines = Vec::new();
    for (i, (line, cells)) in records.enumerate() {
        if cells.len() > header.len() {
            let why = format!("{} cells, where the header has {}", cells.len(), header.len());
            return Err(at(place, line, why));
        }
        let mut row = Line { n: i + 1, ..Line::default() };
        for (name, cell) in header.iter().zip(&cells) {
            set(&mut row, name, cell.trim()).map_err(|why| at(place, line, why))?;
        }
        let cell = |column: &str| {
            let cells = header.iter().zip(&cells).find(|(name, _)| *name == column);
            cells.map(|(_, cell)| cell.trim()).filter(|cell| !cell.is_empty())
        };
        row.own.prompt = prompt(cell("prompt_audio").map(PathBuf::from), cell("prompt_text").map(str::to_owned))
            .map_err(|why| at(place, line, why))?;
        lines.push(row);
    }
    Ok(lines)
}

/// Fills in one cell; an empty one says nothing.
fn set(line: &mut Line, column: &str, cell: &str) -> Result<(), String> {
    let text = (!cell.is_empty()).then(|| cell.to_owned());
    let whole = |why: &str| format!("`{column}`: {why}");
    match column {
        "text" => line.text = cell.to_owned(),
        "name" => line.name = text,
        "voice" => line.own.voice = text,
        "style" => line.own.style = text,
        "seed" => line.own.seed = text.map(|t| t.parse()).transpose().map_err(|_| whole("a whole number is needed"))?,
        "top_k" => {
            line.own.top_k = text.map(|t| t.parse()).transpose().map_err(|_| whole("a whole number is needed"))?
        }
        "temperature" => line.own.temperature = text.map(|t| temperature(&t)).transpose().map_err(|e| whole(&e))?,
        "max_seconds" => line.own.max_seconds = text.map(|t| seconds(&t)).transpose().map_err(|e| whole(&e))?,
        "cfg" => line.own.cfg = text.map(|t| cfg(&t)).transpose().map_err(|e| whole(&e))?,
        "steps" => line.own.steps = text.map(|t| steps(&t)).transpose().map_err(|e| whole(&e))?,
        "reference" => line.own.reference = text.map(PathBuf::from),
        // They belong together, so the whole row is needed.
        "prompt_audio" | "prompt_text" => {}
        _ => return Err(strange("column", column)),
    }
    Ok(())
}

/// The name that serde did not know.
fn unknown(why: &str) -> Option<&str> {
    why.strip_prefix("unknown field `")?.split('`').next()
}

/// What is said about a name that is none of ours.
fn strange(kind: &str, name: &str) -> String {
    let names = ["text", "name", "voice", "style", "seed", "temperature", "top_k", "max_seconds"];
    match nearest(&name.replace('-', "_"), names) {
        Some(near) => format!("the {kind} `{name}` is not known; did you mean `{near}`?"),
        None => format!("the {kind} `{name}` is not known"),
    }
}

fn at(place: &str, line: usize, why: String) -> Error {
    Error::new(format!("{place}, line {line}: {why}")).hint(COLUMNS)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::Form;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn objects() {
        let list = "{\"text\": \"One\", \"voice\": \"Ira\", \"seed\": 5}\n\n{\"text\":\"Two\",\"name\":\"b\",\"max_seconds\":1.5}";
        let lines = Form::Jsonl.lines(list, "x").unwrap();
        assert_eq!((lines[0].n, lines[0].own.seed, lines[0].own.voice.as_deref()), (1, Some(5), Some("Ira")));
        assert_eq!((lines[1].n, lines[1].name.as_deref(), lines[1].own.max_seconds), (3, Some("b"), Some(1.5)));
        let marked = "\u{FEFF}{\"text\": \"One\"}\n\u{FEFF}{\"text\": \"Two\"}\n";
        assert_eq!(Form::Jsonl.lines(marked, "x").unwrap().len(), 2);
        for (wrong, why) in [
            ("{\"text\": \"One\"}\n{\"txt\": \"Two\"}", "line 2: the key `txt` is not known; did you mean `text`?"),
            ("[1, 2]", "line 1"),
            ("{\"text\": 5}", "line 1: invalid type"),
            ("{\"text\": \"a\", \"temperature\": -1}", "`temperature`"),
            ("plain text", "line 1: no JSON object: expected"),
        ] {
            let error = Form::Jsonl.lines(wrong, "x").unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("column"), "{error}");
        }
    }

    #[test]
    fn tables() {
        let list = "text,voice,seed,name\n\"Hello, \"\"you\"\"\",Ira,,a\nplain,,7,\n\n\"two\nlines\",,,\n";
        let lines = Form::Csv.lines(list, "x").unwrap();
        assert_eq!(
            lines.iter().map(|l| l.text.as_str()).collect::<Vec<_>>(),
            ["Hello, \"you\"", "plain", "two\nlines"]
        );
        assert_eq!((lines[0].own.voice.as_deref(), lines[0].own.seed, lines[1].own.seed), (Some("Ira"), None, Some(7)));
        assert_eq!((lines[2].n, lines[0].name.as_deref(), lines[1].name.as_deref()), (3, Some("a"), None));
        let lines = Form::Tsv.lines("Text\tTop_K\n\"Well,\" she said.\t3\n", "x").unwrap();
        assert_eq!((lines[0].text.as_str(), lines[0].own.top_k), ("\"Well,\" she said.", Some(3)));
        assert!(Form::Csv.lines("", "x").unwrap().is_empty());
        for (wrong, why) in [
            ("a,b\n1,2", "line 1: the header names no column `text`"),
            ("text,vioce\na,b", "line 2: the column `vioce` is not known; did you mean `voice`?"),
            ("text\na,b", "line 2: 2 cells"),
            ("text\n\"a\n", "line 2: a quote is never closed"),
            ("text,seed\na,\nb,x", "line 3: `seed`"),
            ("text\n\"a\" b", "line 2: a quoted cell goes on"),
        ] {
            let error = Form::Csv.lines(wrong, "x").unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn recordings_of_lines() {
        let list =
            "text,reference,prompt_audio,prompt_text,cfg,steps\nOne.,a.wav,,,1.5,6\nTwo.,,b.wav,\"Well, yes.\",,\n";
        let lines = Form::Csv.lines(list, "x").unwrap();
        let own = &lines[0].own;
        assert_eq!((own.reference.as_deref(), own.cfg, own.steps), (Some("a.wav".as_ref()), Some(1.5), Some(6)));
        assert_eq!(lines[1].own.prompt, Some(("b.wav".into(), "Well, yes.".into())));
        let json = "{\"text\": \"Two.\", \"prompt_audio\": \"b.wav\", \"prompt_text\": \"Well, yes.\"}\n\
                    {\"text\": \"One.\", \"reference\": \"a.wav\", \"cfg\": 1.5, \"steps\": 6}";
        let objects = Form::Jsonl.lines(json, "x").unwrap();
        assert_eq!((&objects[0].own, &objects[1].own), (&lines[1].own, &lines[0].own));
        for (wrong, why) in [
            ("text,prompt_audio\na,b.wav\n", "line 2: `prompt_audio` without `prompt_text`"),
            ("text,prompt_audio,prompt_text\na,,words\n", "line 2: `prompt_text` without `prompt_audio`"),
            ("text,steps\na,1\n", "line 2: `steps`"),
            ("text,cfg\na,-1\n", "line 2: `cfg`"),
        ] {
            let error = Form::Csv.lines(wrong, "x").unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    proptest! {
        /// What is written by the rules is read as it was.
        #[test]
        fn csv_cells_come_back(cells in prop::collection::vec(prop::collection::vec("[a,\"\n ]{0,5}x", 2), 1..5)) {
            let quote = |cell: &String| format!("\"{}\"", cell.replace('"', "\"\""));
            let line = |row: &Vec<String>| row.iter().map(quote).collect::<Vec<_>>().join(",") + "\n";
            let text: String = cells.iter().map(line).collect();
            let read: Vec<Vec<String>> = csv(&text, "x").unwrap().into_iter().map(|(_, cells)| cells).collect();
            prop_assert_eq!(read, cells);
        }
    }
}
