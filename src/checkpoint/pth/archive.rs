//! The zip archive around a PyTorch file: names to byte ranges, nothing unpacked.
//!
//! PyTorch stores its entries uncompressed, so an entry is a range of the mapped file. Read is the directory at the end of
//! the file (with its 64-bit form, which PyTorch always writes) and of each entry the local header, whose length alone
//! tells where the content begins. Whatever another reader might understand differently is refused: compressed or
//! encrypted entries, equal names, entries that overlap, names that differ between directory and entry.
//! Source: PKWARE's APPNOTE, sections 4.3 and 4.5.3.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

use super::shown;

const LOCAL: &[u8] = b"PK\x03\x04";
const CENTRAL: &[u8] = b"PK\x01\x02";
const END: &[u8] = b"PK\x05\x06";
const END_64: &[u8] = b"PK\x06\x06";
const LOCATOR_64: &[u8] = b"PK\x06\x07";
/// Sizes of the records above without what varies.
const LOCAL_BYTES: usize = 30;
const CENTRAL_BYTES: usize = 46;
const END_BYTES: usize = 22;
const END_64_BYTES: usize = 56;
const LOCATOR_64_BYTES: usize = 20;
/// The comment at the end has at most so many bytes.
const LONGEST_COMMENT: usize = 0xffff;
/// Stands for "see the 64-bit field".
const ELSEWHERE: u64 = 0xffff_ffff;

/// The entries of an archive: where the content of each lies.
pub(super) type Archive<'a> = BTreeMap<&'a str, Range<usize>>;

/// Reads the directory.
///
/// # Errors
/// What is wrong with the archive, to follow the name of the file.
pub(super) fn read(content: &[u8]) -> Result<Archive<'_>, String> {
    let directory = directory(content)?;
    let mut archive = Archive::new();
    let mut at = directory.start;
    while at < directory.end {
        let (name, range, next) = entry(content, at, &directory)?;
        match archive.entry(name) {
            Entry::Vacant(free) => free.insert(range),
            Entry::Occupied(_) => return Err(format!("holds the entry `{}` twice", shown(name))),
        };
        at = next;
    }
    let mut ranges: Vec<(&Range<usize>, &str)> = archive.iter().map(|(name, range)| (range, *name)).collect();
    ranges.sort_by_key(|(range, _)| (range.start, range.end));
    for pair in ranges.windows(2) {
        // The next one's header lies between; that is checked where the header is read.
        if pair[1].0.start < pair[0].0.end {
            return Err(format!("is inconsistent: `{}` overlaps `{}`", shown(pair[1].1), shown(pair[0].1)));
        }
    }
    Ok(archive)
}

/// Where the directory lies.
fn directory(content: &[u8]) -> Result<Range<usize>, String> {
    let lowest = content.len().saturating_sub(END_BYTES + LONGEST_COMMENT);
    let end = (lowest..=content.len().saturating_sub(END_BYTES))
        .rev()
        .find(|&at| content[at..].starts_with(END) && short(content, at + 20) == Some(content.len() - at - END_BYTES));
    let Some(end) = end else {
        return Err(format!("is truncated: a zip archive of {} bytes without its directory at the end", content.len()));
    };
    let damaged = || "is damaged: the directory of the zip archive does not lie where its end says".to_owned();
    let locator = end.checked_sub(LOCATOR_64_BYTES).filter(|&at| content[at..].starts_with(LOCATOR_64));
    // What follows the directory, its size and its place.
    let (stop, size, start) = match locator {
        Some(locator) => {
            let at = long(content, locator + 8).filter(|at| *at <= locator.saturating_sub(END_64_BYTES));
            let at = at.filter(|&at| content[at..].starts_with(END_64)).ok_or_else(damaged)?;
            (at, long(content, at + 40), long(content, at + 48))
        }
        None => (end, word(content, end + 12), word(content, end + 16)),
    };
    match (start, size) {
        (Some(start), Some(size)) if start.checked_add(size) == Some(stop) => Ok(start..stop),
        _ => Err(damaged()),
    }
}

/// Name and content of the entry that the directory describes at `at`, and where its next description begins.
fn entry<'a>(content: &'a [u8], at: usize, directory: &Range<usize>) -> Result<(&'a str, Range<usize>, usize), String> {
    let damaged = || "is damaged: the directory of the zip archive cannot be read".to_owned();
    let record = content.get(at..directory.end).filter(|record| record.starts_with(CENTRAL)).ok_or_else(damaged)?;
    let short = |at| short(record, at).ok_or_else(damaged);
    let (name_length, extra_length, comment_length) = (short(28)?, short(30)?, short(32)?);
    let extra_at = CENTRAL_BYTES + name_length;
    let next = extra_at + extra_length + comment_length;
    if next > record.len() {
        return Err(damaged());
    }
    let name = name(&record[CENTRAL_BYTES..extra_at])?;
    let (flags, method) = (short(8)?, short(10)?);
    if flags & 1 != 0 {
        return Err(format!("holds the encrypted entry `{}`", shown(name)));
    }
    let word = |at| word(record, at).ok_or_else(damaged);
    let [size, packed, offset] =
        wide([word(24)?, word(20)?, word(42)?], &record[extra_at..extra_at + extra_length]).ok_or_else(damaged)?;
    if method != 0 || size != packed {
        return Err(format!(
            "holds the compressed entry `{}`, as a TorchScript program may, but no file of tensors",
            shown(name)
        ));
    }
    let range = located(content, name, offset, size, directory.start)
        .ok_or_else(|| format!("is inconsistent: its directory says `{}` is where it is not", shown(name)))?;
    Ok((name, range, at + next))
}

/// Size, packed size and offset, where the extra field's 64-bit values replace those that do not fit.
fn wide(mut fields: [usize; 3], mut extra: &[u8]) -> Option<[usize; 3]> {
    while extra.len() >= 4 {
        let (id, length) = (short(extra, 0)?, short(extra, 2)?);
        let body = extra.get(4..4 + length)?;
        if id == 1 {
            let mut at = 0;
            for field in fields.iter_mut().filter(|field| **field as u64 == ELSEWHERE) {
                *field = long(body, at)?;
                at += 8;
            }
            return Some(fields);
        }
        extra = &extra[4 + length..];
    }
    Some(fields)
}

/// The content behind the local header at `offset`; `None` where that is not the header of `name`, or the content would
/// reach into the directory.
fn located(content: &[u8], name: &str, offset: usize, size: usize, limit: usize) -> Option<Range<usize>> {
    let header = content.get(offset..limit).filter(|header| header.starts_with(LOCAL))?;
    let name_end = LOCAL_BYTES + short(header, 26)?;
    let start = name_end + short(header, 28)?;
    if header.get(LOCAL_BYTES..name_end)? != name.as_bytes() {
        return None;
    }
    let end = start.checked_add(size).filter(|end| *end <= header.len())?;
    Some(offset + start..offset + end)
}

fn name(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| "holds an entry whose name is no text".to_owned())
}

fn short(bytes: &[u8], at: usize) -> Option<usize> {
    bytes.get(at..)?.first_chunk::<2>().map(|b| usize::from(u16::from_le_bytes(*b)))
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(*bytes.get(at..)?.first_chunk::<4>()?)).ok()
}

fn long(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(*bytes.get(at..)?.first_chunk::<8>()?)).ok()
}
