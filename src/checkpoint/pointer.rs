//! Files that are not the file they are named after: Git-LFS pointers and error pages.

use crate::error::Error;

/// Explains content that some tool saved in place of the real file; `None` where it looks like neither.
pub fn explain(place: &str, content: &[u8]) -> Option<Error> {
    let start = &content[..content.len().min(1024)];
    if start.starts_with(b"version https://git-lfs.github.com/") {
        let text = String::from_utf8_lossy(start);
        let size = text.lines().find_map(|line| line.strip_prefix("size ")).unwrap_or("unknown");
        return Some(
            Error::new(format!(
                "`{place}` is a Git LFS pointer of {} bytes, not the file itself ({size} bytes)",
                content.len()
            ))
            .hint("run `git lfs pull` in the folder, or fetch the model with `rtts models pull`"),
        );
    }
    let text = start.trim_ascii_start().to_ascii_lowercase();
    if text.starts_with(b"<!doctype") || text.starts_with(b"<html") || text.starts_with(b"<?xml") {
        return Some(
            Error::new(format!("`{place}` is a web page, not the file itself"))
                .hint("the download was answered by an error or login page; fetch the model with `rtts models pull`"),
        );
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn pointers_and_pages_are_told() {
        let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4580080592\n";
        let text = explain("m.safetensors", pointer).unwrap().to_string();
        assert!(text.contains("m.safetensors") && text.contains("4580080592"), "{text}");
        assert!(explain("m", b"  <!DOCTYPE html><html>").unwrap().to_string().contains("web page"));
        assert!(explain("m", b"{}").is_none() && explain("m", b"").is_none());
    }
}
