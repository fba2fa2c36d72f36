//! The facts, written for people.

use std::io::{self, Write};

use super::facts::{Facts, Part};
use super::units::{bytes, count};

/// Width of the first column.
const LABEL: usize = 14;

/// Writes all of it.
pub fn write(facts: &Facts, out: &mut dyn Write) -> io::Result<()> {
    let mut say = |label: &str, text: &str| writeln!(out, "{label:LABEL$}{text}");
    say("model", &facts.model)?;
    let called = facts.architecture.as_deref().map(|name| format!(" (`{name}`)")).unwrap_or_default();
    say("layout", &format!("{}{called}: {}", facts.layout, about(facts)))?;
    if let Some(rate) = facts.sample_rate {
        say("audio", &format!("{rate} Hz, mono"))?;
    }
    if !facts.speakers.is_empty() {
        say("speakers", &facts.speakers.join(", "))?;
    }
    say("packing", &packing(facts))?;
    if let Some(convention) = &facts.convention {
        say("", &format!("weight = {convention}"))?;
    }
    if let Some([low, high]) = facts.global_scales {
        say("", &format!("global scales {low:.3e} … {high:.3e}"))?;
    }
    if let Some(unpacked) = &facts.unpacked {
        say("not packed", unpacked)?;
    }
    if let Some(inputs) = &facts.inputs {
        let range = facts.input_scales.map(|[low, high]| format!("; input scales {low:.3e} … {high:.3e}"));
        say("inputs", &format!("{inputs}{}", range.unwrap_or_default()))?;
    }
    if let Some([shared, layers]) = facts.shared_inputs {
        say("", &format!("q, k, v, gate and up share one input scale in {shared} of {layers} layers"))?;
    }
    for note in &facts.notes {
        say("note", note)?;
    }
    if let Some(device) = &facts.device {
        say("would run on", device)?;
    }

    writeln!(out)?;
    parts(facts, out)?;
    writeln!(out)?;
    reads(facts, out)?;
    writeln!(out)?;
    for (key, value) in &facts.configuration {
        writeln!(out, "{key} = {value}")?;
    }
    if let Some(licence) = facts.licence {
        writeln!(out, "\nlicence: {licence}")?;
    }
    if let Some(tensors) = &facts.tensors {
        writeln!(out)?;
        let widest = tensors.iter().map(|tensor| tensor.name.len()).max().unwrap_or(0);
        for tensor in tensors {
            let shape = format!("{:?}", tensor.shape);
            writeln!(
                out,
                "{:widest$}  {:8}  {shape:20}  {:>9}  {}",
                tensor.name,
                tensor.dtype,
                bytes(tensor.bytes),
                tensor.file
            )?;
        }
    }
    Ok(())
}

fn about(facts: &Facts) -> &'static str {
    match facts.layout.as_str() {
        "TinyAya" => "a Cohere2 language model that writes Mimi codes, with a stop head",
        _ => "two MiniCPM4 language models and a diffusion decoder that write AudioVAE latents",
    }
}

fn packing(facts: &Facts) -> String {
    let packed: u64 = facts.parts.iter().filter_map(|part| part.stored.get("NVFP4")).sum();
    let mut text = facts.packing.clone();
    if let Some(tool) = &facts.packed_by {
        text.push_str(&format!(", made by {tool}"));
    }
    if packed > 0 {
        let (packed, all) = (count(packed), count(facts.parameters));
        text.push_str(&format!("; {} matrices, {packed} of {all} parameters, at 4.5 bits", facts.packed_matrices));
    }
    text
}

fn parts(facts: &Facts, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{:26}{:>8}{:>12}{:>11}   stored as", "part", "tensors", "parameters", "bytes")?;
    for part in &facts.parts {
        writeln!(
            out,
            "{:26}{:>8}{:>12}{:>11}   {}",
            part.name,
            part.tensors,
            count(part.parameters),
            bytes(part.bytes),
            stored(part)
        )?;
    }
    let tensors: usize = facts.parts.iter().map(|part| part.tensors).sum();
    writeln!(out, "{:26}{tensors:>8}{:>12}{:>11}", "in all", count(facts.parameters), bytes(facts.bytes))?;
    for (file, size) in &facts.files {
        writeln!(out, "  {file}: {}", bytes(*size))?;
    }
    Ok(())
}

/// `NVFP4`, or the share of each type where there are several.
fn stored(part: &Part) -> String {
    let mut kinds: Vec<_> = part.stored.iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    match kinds.as_slice() {
        [(only, _)] => (*only).to_string(),
        many => many.iter().map(|(kind, n)| format!("{kind} {}", count(**n))).collect::<Vec<_>>().join(", "),
    }
}

fn reads(facts: &Facts, out: &mut dyn Write) -> io::Result<()> {
    let Some(reads) = &facts.reads else {
        return writeln!(out, "bytes read per step: not known, the configuration lacks the sizes");
    };
    let made_of: Vec<String> = reads.of.iter().map(|(name, size)| format!("{name} {}", bytes(*size))).collect();
    writeln!(out, "read per {}: {} of weights ({})", reads.step, bytes(reads.bytes), made_of.join(", "))?;
    let second = reads.bytes as f64 * reads.steps_a_second;
    let step = reads.step;
    let plural = if step == "patch" { "es" } else { "s" };
    writeln!(
        out,
        "a second of speech: {} {step}{plural}, {} of weights; real time needs that many bytes a second",
        reads.steps_a_second,
        bytes(second as u64)
    )?;
    writeln!(out, "in memory: {} of weights", bytes(facts.bytes))?;
    if let Some(cache) = reads.cache_a_position {
        writeln!(out, "context: {} of keys and values per position", bytes(cache))?;
    }
    Ok(())
}
