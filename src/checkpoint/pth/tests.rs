//! Files that PyTorch wrote, and files that it never would.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::PathBuf;

use proptest::prelude::*;
use safetensors::SafeTensors;

use super::*;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/pth").join(name)
}

fn load(name: &str) -> Result<Vec<(String, Tensor)>> {
    read(&format!("dir/{name}"), &std::fs::read(path(name)).unwrap().into())
}

fn refused(content: impl Into<Bytes>, parts: &[&str]) {
    let error = read("dir/x.pth", &content.into()).unwrap_err();
    let text = error.to_string();
    assert!(error.cure().is_some(), "{text} has no cure");
    for part in [&["`dir/x.pth`"], parts].concat() {
        assert!(text.contains(part), "{text}\nlacks\n{part}");
    }
}

#[test]
fn files_of_pytorch_hold_what_pytorch_says() {
    let bytes = std::fs::read(path("expected.safetensors")).unwrap();
    let expected = SafeTensors::deserialize(&bytes).unwrap();
    let mut compared = 0;
    for file in ["plain", "nested", "old_weight_norm", "new_weight_norm", "parameters", "views", "kinds"] {
        for (name, tensor) in load(&format!("{file}.pth")).unwrap() {
            let right = expected.tensor(&format!("{file}/{name}")).unwrap();
            assert_eq!((tensor.dtype, &tensor.shape[..]), (right.dtype(), right.shape()), "{file}/{name}");
            assert_eq!(&*tensor.bytes, right.data(), "{file}/{name}");
            assert_eq!(&*tensor.place, format!("dir/{file}.pth"));
            compared += 1;
        }
    }
    assert_eq!(compared, expected.len());
}

#[test]
fn tensors_in_order_are_slices_of_the_file() {
    let content = Bytes::from(std::fs::read(path("views.pth")).unwrap());
    let inside = |bytes: &Bytes| content.as_ptr_range().contains(&bytes.as_ptr());
    for (name, tensor) in read("m", &content).unwrap() {
        let copied = ["transposed", "slice", "column", "odd_strides", "empty"].contains(&name.as_str());
        assert_eq!(inside(&tensor.bytes), !copied, "{name}");
    }
}

#[test]
fn files_of_pytorch_that_hold_more_are_refused() {
    for (file, parts) in [
        ("legacy.pth", &["before version 1.6"][..]),
        ("module.pth", &["`torch.nn.modules.linear.Linear`", "nothing in it is executed"]),
        ("evil.pth", &["`posix.system`", "nothing in it is executed"]),
        ("script.pth", &["TorchScript", "compressed entry `script/code/"]),
        ("protocol4.pth", &["pickle protocol 4"]),
        ("repeated.pth", &["`a`", "repeats its numbers"]),
        ("float8.pth", &["`torch._utils._rebuild_tensor_v3`"]),
        ("nothing.pth", &["no tensors", "`epoch`, `model`"]),
        ("no_dictionary.pth", &["no dictionary of tensors"]),
    ] {
        refused(std::fs::read(path(file)).unwrap(), parts);
    }
}

#[test]
fn other_files_are_told() {
    refused(Vec::new(), &["empty", "0 bytes"]);
    refused(b"rubbish".to_vec(), &["not a file of `torch.save`", "7 bytes"]);
    refused(b"\x80\x04K\x01.".to_vec(), &["bare pickle"]);
    refused(b"version https://git-lfs.github.com/spec/v1\nsize 376951122\n".to_vec(), &["Git LFS", "376951122"]);
    refused(zip(&[("a/b.txt", b"x")]), &["not one of `torch.save`", "`a/b.txt`"]);
    refused(zip(&[]), &["not one of `torch.save`"]);
    refused(zip(&[("a/data.pkl", b"}."), ("b/data.pkl", b"}.")]), &["two `data.pkl`"]);
    refused(zip(&[("a/data.pkl", b"}."), ("a/constants.pkl", b"}.")]), &["TorchScript"]);
    refused(zip(&[("a/data.pkl", b"}."), ("a/byteorder", b"big")]), &["orders bytes the other way"]);
    refused(zip(&[("a/data.pkl", b"}."), ("a/byteorder", b"little")]), &["no tensors", "but nothing"]);
    let whole = std::fs::read(path("plain.pth")).unwrap();
    for length in [10, 100, whole.len() / 2, whole.len() - 1] {
        refused(whole[..length].to_vec(), &["truncated", &length.to_string()]);
    }
}

// ---- the archive

/// An archive of stored entries, without the 64-bit form.
fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in entries {
        let offset = out.len() as u32;
        let size = (content.len() as u32).to_le_bytes();
        let lengths = [(name.len() as u16).to_le_bytes(), [0, 0]].concat();
        let common = [&[10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &size, &size, &lengths].concat();
        out.extend([b"PK\x03\x04", &common[..], name.as_bytes(), content].concat());
        directory
            .extend([b"PK\x01\x02\x0a\x00", &common[..], &[0; 10], &offset.to_le_bytes(), name.as_bytes()].concat());
    }
    let (count, start) = ((entries.len() as u16).to_le_bytes(), out.len() as u32);
    out.extend(&directory);
    out.extend([b"PK\x05\x06\0\0\0\0", &count[..], &count, &(directory.len() as u32).to_le_bytes()].concat());
    out.extend([&start.to_le_bytes()[..], &[0, 0]].concat());
    out
}

/// Where the directory's description of the last entry begins.
fn last_description(archive: &[u8]) -> usize {
    archive.windows(4).rposition(|four| four == b"PK\x01\x02").unwrap()
}

#[test]
fn archives_that_readers_understand_differently_are_refused() {
    let good = zip(&[("a/data.pkl", &program()), ("a/data/0", &[0; 16])]);
    assert_eq!(read("m", &good.clone().into()).unwrap().len(), 1);
    let with = |change: &dyn Fn(&mut Vec<u8>, usize)| {
        let mut bad = good.clone();
        let at = last_description(&bad);
        change(&mut bad, at);
        bad
    };
    refused(with(&|bad, at| bad[at + 10] = 8), &["compressed entry `a/data/0`"]);
    refused(with(&|bad, at| bad[at + 20] = 15), &["compressed entry `a/data/0`"]);
    refused(with(&|bad, at| bad[at + 8] = 1), &["encrypted entry `a/data/0`"]);
    refused(with(&|bad, at| bad[at + 46] = b'b'), &["`b/data/0` is where it is not"]);
    refused(with(&|bad, at| bad[at + 46] = 0xff), &["no text"]);
    refused(with(&|bad, at| bad[at + 42] = 1), &["`a/data/0` is where it is not"]);
    refused(with(&|bad, at| bad[at + 42..at + 46].fill(0xff)), &["`a/data/0` is where it is not"]);
    refused(with(&|bad, at| bad[at + 20..at + 28].fill(0xfe)), &["`a/data/0` is where it is not"]);
    refused(with(&|bad, at| bad[at + 28] = 200), &["directory of the zip archive cannot be read"]);
    refused(with(&|bad, at| bad[at] = b'Q'), &["directory of the zip archive cannot be read"]);
    let end = good.len() - 22;
    refused(with(&|bad, _| bad[end + 12] += 1), &["does not lie where its end says"]);
    refused(with(&|bad, _| bad[end + 16..end + 20].fill(0xff)), &["does not lie where its end says"]);
    refused(zip(&[("a/data.pkl", &program()), ("a/data/0", &[0; 16]), ("a/data/0", &[1; 16])]), &["`a/data/0` twice"]);
    // Both entries' headers are right, but the first one's content holds the second.
    let inner = zip(&[("a/data/0", &[0; 16])]);
    let inner_entry = &inner[..30 + 8 + 16];
    let mut nested = zip(&[("a/data.pkl", inner_entry), ("a/data/0", &[0; 16])]);
    let at = last_description(&nested);
    nested[at + 42] = 30 + 10;
    refused(nested, &["`a/data/0` overlaps `a/data.pkl`"]);
}

// ---- the pickle

fn text(text: &str) -> Vec<u8> {
    [&b"X"[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

fn number(value: i64) -> Vec<u8> {
    [&[0x8a, 8][..], &value.to_le_bytes()].concat()
}

fn numbers(values: &[i64]) -> Vec<u8> {
    [&b"("[..], &values.iter().flat_map(|v| number(*v)).collect::<Vec<u8>>(), b"t"].concat()
}

/// A float tensor over the storage `data/<key>` of `len` numbers.
fn tensor(key: &str, len: i64, offset: i64, shape: &[i64], strides: &[i64]) -> Vec<u8> {
    let storage = [&b"("[..], &text("storage"), b"ctorch\nFloatStorage\n", &text(key), &text("cuda:0"), &number(len)];
    let view = [number(offset), numbers(shape), numbers(strides)].concat();
    let hooks = b"ccollections\nOrderedDict\n)R";
    [&b"ctorch._utils\n_rebuild_tensor_v2\n("[..], &storage.concat(), b"tQ", &view, b"\x89", hooks, b"tR"].concat()
}

/// `{name: value, ...}`
fn dictionary(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let entries: Vec<u8> = entries.iter().flat_map(|(name, value)| [text(name), value.clone()].concat()).collect();
    [&b"\x80\x02}("[..], &entries, b"u."].concat()
}

fn program() -> Vec<u8> {
    dictionary(&[("a", tensor("0", 4, 0, &[2, 2], &[2, 1]))])
}

/// A file with this pickle and one storage of four numbers.
fn file(program: &[u8]) -> Vec<u8> {
    zip(&[("a/data.pkl", program), ("a/data/0", &[0; 16])])
}

#[test]
fn tensors_outside_of_their_storage_are_refused() {
    let bad = |tensor: Vec<u8>, part: &str| refused(file(&dictionary(&[("w", tensor)])), &["`w`", part]);
    bad(tensor("0", 4, 1, &[2, 2], &[2, 1]), "outside of its storage of 4");
    bad(tensor("0", 4, 0, &[5], &[1]), "outside");
    bad(tensor("0", 4, 0, &[2], &[4]), "outside");
    bad(tensor("0", 4, 4, &[], &[]), "outside");
    bad(tensor("0", 4, i64::MAX, &[2], &[1]), "outside");
    bad(tensor("0", 4, 0, &[i64::MAX, i64::MAX], &[1, 1]), "outside");
    bad(tensor("0", 4, 0, &[2, 2], &[i64::MAX, i64::MAX]), "outside");
    bad(tensor("0", 4, 0, &[1 << 40], &[0]), "repeats its numbers");
    bad(tensor("0", 5, 0, &[2], &[1]), "16 bytes, which are not 5 F32");
    bad(tensor("0", i64::MAX, 0, &[2], &[1]), "16 bytes, which are not");
    bad(tensor("1", 4, 0, &[2], &[1]), "storage `1` is not in the archive");
    bad(tensor("../data.pkl", 4, 0, &[2], &[1]), "is not in the archive");
    let bad = |tensor: Vec<u8>, part: &str| refused(file(&dictionary(&[("w", tensor)])), &[part]);
    bad(tensor("0", 4, -1, &[2], &[1]), "begins a tensor at -1");
    bad(tensor("0", 4, 0, &[-2], &[1]), "the size -2");
    bad(tensor("0", 4, 0, &[2], &[-1]), "the size -1");
    bad(tensor("0", -4, 0, &[2], &[1]), "announces -4");
    bad(tensor("0", 4, 0, &[2, 2], &[1]), "2 sizes and 1 strides");
    bad(tensor("0", 4, 0, &[1; 17], &[1; 17]), "17 dimensions");
    // Nothing is read of a tensor without numbers, wherever it says it is.
    let empty = tensor("0", 4, i64::MAX, &[0, i64::MAX, i64::MAX], &[1, 1, 1]);
    assert!(read("m", &file(&dictionary(&[("w", empty)])).into()).unwrap()[0].1.bytes.is_empty());
}

#[test]
fn copies_are_bounded_by_the_size_of_the_file() {
    // Each is a transposed copy of the whole storage.
    let many: Vec<(String, Vec<u8>)> =
        (0..200).map(|i| (format!("w{i}"), tensor("0", 4096, 0, &[64, 64], &[1, 64]))).collect();
    let many: Vec<(&str, Vec<u8>)> = many.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    refused(zip(&[("a/data.pkl", &dictionary(&many)), ("a/data/0", &[0; 16384])]), &["larger than the file"]);
    let one = zip(&[("a/data.pkl", &dictionary(&many[..1])), ("a/data/0", &[0; 16384])]);
    assert_eq!(read("m", &one.into()).unwrap()[0].1.bytes.len(), 16384);
}

#[test]
fn pickles_that_misuse_the_machine_are_refused() {
    let bad = |program: &[u8], part: &str| refused(file(program), &[part, "pickle"]);
    bad(b"", "ends early");
    bad(b"\x80\x02}", "ends early");
    bad(b"X\xff\xff\xff\xff", "ends early");
    bad(b"ctorch", "ends early");
    bad(b"K", "ends early");
    bad(b".", "takes more from its stack");
    bad(b"(K\x01(.", "takes more from its stack");
    bad(b"K\x01\x86.", "takes more from its stack");
    bad(b"t.", "a mark that was not set");
    bad(b"h\x07.", "recalls a value that it never kept");
    bad(b"j\xff\xff\xff\xff.", "recalls a value that it never kept");
    bad(b"}(K\x01u.", "a key without a value");
    bad(b"K\x01K\x02K\x03s.", "a dictionary that is none");
    bad(b"K\x01K\x02a.", "a list that is none");
    bad(b"K\x01Nb.", "a dictionary that is none");
    bad(b"K\x01)R.", "no function");
    bad(b"ccollections\nOrderedDict\nK\x01R.", "without a list of arguments");
    bad(b"ctorch\nFloatStorage\n)R.", "unknown arguments");
    bad(b"K\x01Q.", "no storage");
    bad(b"\x8a\x09\x01\x01\x01\x01\x01\x01\x01\x01\x01.", "an integer of 9 bytes");
    bad(b"X\x01\x00\x00\x00\xff.", "a text that is none");
    bad(b"\x80\x05.", "protocol 5");
    // INST, OBJ, NEWOBJ, EXT1, STACK_GLOBAL, PERSID: other ways to reach a function.
    for code in [b'i', b'o', 0x81, 0x82, 0x93, b'P'] {
        bad(&[b'(', code, b'\n', b'\n', b'.'], &format!("instruction {code:#04x}"));
    }
    for name in
        ["builtins\neval", "os\nsystem", "torch\nload", "torch._utils\n_rebuild_tensor", "torch\nUntypedStorage"]
    {
        bad(format!("c{name}\n.").as_bytes(), &name.replace('\n', "."));
    }
    // What a message shows of the file cannot disturb a terminal.
    let loud = format!("c\x1b[31m{}\nx\n.", "m".repeat(500));
    let error = read("m", &file(loud.as_bytes()).into()).unwrap_err().to_string();
    assert!(error.len() < 300 && !error.contains('\x1b'), "{error}");
}

#[test]
fn bombs_cost_nothing() {
    // A list in itself, a hundred thousand nested tuples, a tuple of two of the last one forty times.
    let cycle = [&b"]q\x00h\x00a"[..], b"0"].concat();
    refused(file(&cycle), &["0x30"]);
    let nested = [b")".to_vec(), b"\x85".repeat(100_000), b".".to_vec()].concat();
    refused(file(&nested), &["no dictionary of tensors"]);
    let doubled = [&b")"[..], &b"q\x00h\x00\x86".repeat(40), b"."].concat();
    refused(file(&doubled), &["no dictionary of tensors"]);
    let itself = [&b"\x80\x02}q\x00"[..], &text("state_dict"), b"h\x00s."].concat();
    refused(file(&itself), &["no tensors"]);
    refused(file(&b")".repeat(3 << 20)), &["2097152 instructions"]);
    refused(file(&b"(".repeat(3 << 20)), &["2097152 instructions"]);
    let memo: Vec<u8> = (0..1_000_000_u32).flat_map(|i| [&b"r"[..], &i.to_le_bytes()].concat()).collect();
    refused(file(&[&b"}"[..], &memo, b"."].concat()), &["no tensors"]);
}

#[test]
fn names_twice_are_refused_and_the_last_state_counts() {
    let a = || tensor("0", 4, 0, &[4], &[1]);
    refused(file(&dictionary(&[("w", a()), ("w", a())])), &["`w` twice"]);
    // Python keeps the last value of a key.
    let inner = |name: &str| [&b"}("[..], &text(name), &a(), b"u"].concat();
    let both = dictionary(&[("state_dict", inner("x")), ("state_dict", inner("y"))]);
    assert_eq!(read("m", &file(&both).into()).unwrap()[0].0, "y");
    refused(file(&dictionary(&[("state_dict", number(1))])), &["`state_dict` that is no dictionary"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is changed, the reader ends with tensors that fit their shapes, or with an error that names the file.
    #[test]
    fn damage_never_panics(
        pick in 0..7_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in prop::option::weighted(0.1, any::<prop::sample::Index>()),
    ) {
        let file = ["plain", "nested", "old_weight_norm", "new_weight_norm", "parameters", "views", "kinds"][pick];
        let mut content = std::fs::read(path(&format!("{file}.pth"))).unwrap();
        for (at, byte) in changes {
            let at = at.index(content.len());
            content[at] = byte;
        }
        if let Some(at) = cut {
            content.truncate(at.index(content.len()));
        }
        match read("dir/x.pth", &content.into()) {
            Ok(tensors) => for (name, tensor) in tensors {
                let size = tensor.shape.iter().product::<usize>() * tensor.dtype.bitsize() / 8;
                prop_assert_eq!(size, tensor.bytes.len(), "{}", name);
            },
            Err(error) => prop_assert!(error.to_string().contains("dir/x.pth") && error.cure().is_some(), "{error}"),
        }
    }

    /// Pickles of random instructions, most of them real ones.
    #[test]
    fn nonsense_never_panics(codes in prop::collection::vec(
        prop_oneof![
            8 => prop::sample::select(b"()}]tu\x85\x86\x87saeNbQR\x88".to_vec()).prop_map(|code| vec![code]),
            2 => any::<u8>().prop_map(|n| vec![b'K', n]),
            2 => (0..4_u8).prop_map(|n| vec![b'q', n]),
            2 => (0..4_u8).prop_map(|n| vec![b'h', n]),
            1 => Just(b"ccollections\nOrderedDict\n".to_vec()),
            1 => Just(b"ctorch._utils\n_rebuild_tensor_v2\n".to_vec()),
            1 => Just(b"ctorch\nFloatStorage\n".to_vec()),
            1 => Just(text("storage")),
            1 => any::<u8>().prop_map(|code| vec![code]),
        ],
        0..60,
    )) {
        let program = [codes.concat(), b".".to_vec()].concat();
        if let Err(error) = read("dir/x.pth", &file(&program).into()) {
            prop_assert!(error.to_string().contains("dir/x.pth"), "{error}");
        }
    }
}
