//! The pickle inside a PyTorch file, read without executing anything.
//!
//! A pickle is a program for a stack machine that may call any function of the Python that reads it. Here only the
//! instructions exist that `torch.save` writes for tensors and plain values, and only the few names of [`Global`], none of
//! which is called: applied to arguments, each becomes a description of a tensor. Everything else is an error that names
//! what was asked for.
//!
//! Values live in an arena and refer to each other by index, so neither deep nesting nor a value that contains itself
//! costs any stack; an instruction makes at most one value, and their number is limited.
//! Source: the instruction table in CPython's `pickletools`; the forms in PyTorch's `torch/_utils.py`.

use std::collections::HashMap;

use safetensors::Dtype;

use super::shown;

/// More dimensions than any tensor has.
const MOST_DIMENSIONS: usize = 16;

/// Some 60 000 tensors' worth; a small file can ask for any number of values.
const MOST_INSTRUCTIONS: usize = 1 << 21;

/// A value; copying it copies a reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    /// None, a truth value or a floating-point number: never part of a tensor, and of no use here.
    Plain,
    Int(i64),
    Text(&'a str),
    Global(Global),
    /// Index into [`Pickle::tuples`]; lists are kept there too.
    Tuple(usize),
    List(usize),
    /// Index into [`Pickle::dicts`].
    Dict(usize),
    /// Index into [`Pickle::storages`].
    Storage(usize),
    /// Index into [`Pickle::tensors`].
    Tensor(usize),
}

/// The only names a pickle may ask for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Global {
    OrderedDict,
    Size,
    RebuildTensor,
    RebuildParameter,
    Storage(Dtype),
}

impl Global {
    fn find(module: &str, name: &str) -> Option<Self> {
        Some(match (module, name) {
            ("collections", "OrderedDict") => Self::OrderedDict,
            ("torch", "Size") => Self::Size,
            ("torch._utils", "_rebuild_tensor_v2") => Self::RebuildTensor,
            ("torch._utils", "_rebuild_parameter") => Self::RebuildParameter,
            ("torch", storage) => Self::Storage(match storage {
                "DoubleStorage" => Dtype::F64,
                "FloatStorage" => Dtype::F32,
                "HalfStorage" => Dtype::F16,
                "BFloat16Storage" => Dtype::BF16,
                "LongStorage" => Dtype::I64,
                "IntStorage" => Dtype::I32,
                "ShortStorage" => Dtype::I16,
                "CharStorage" => Dtype::I8,
                "ByteStorage" => Dtype::U8,
                "BoolStorage" => Dtype::BOOL,
                _ => return None,
            }),
            _ => return None,
        })
    }
}

/// One run of numbers: an entry of the archive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Storage<'a> {
    pub dtype: Dtype,
    /// The entry is `data/<key>`.
    pub key: &'a str,
    /// How many numbers.
    pub len: usize,
}

/// A view of a storage; sizes and strides count numbers.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// Index into [`Pickle::storages`].
    pub storage: usize,
    pub offset: usize,
    pub shape: Vec<usize>,
    pub strides: Vec<usize>,
}

/// What the pickle describes.
#[derive(Debug, Default)]
pub(super) struct Pickle<'a> {
    tuples: Vec<Vec<Value<'a>>>,
    dicts: Vec<Vec<(Value<'a>, Value<'a>)>>,
    pub storages: Vec<Storage<'a>>,
    tensors: Vec<View>,
    stack: Vec<Value<'a>>,
    /// Lengths of the stack at the marks.
    marks: Vec<usize>,
    memo: HashMap<u32, Value<'a>>,
}

impl<'a> Pickle<'a> {
    /// Runs the pickle; returns its result beside everything that it refers to.
    ///
    /// # Errors
    /// What the pickle does that no file of tensors does.
    pub fn read(program: &'a [u8]) -> Result<(Self, Value<'a>), String> {
        let mut pickle = Self::default();
        let mut reader = Reader { program, at: 0 };
        for _ in 0..MOST_INSTRUCTIONS {
            let at = reader.at;
            let located = |why: String| format!("{why} (byte {at} of its pickle)");
            let code = reader.byte().map_err(located)?;
            if code == b'.' {
                let result = pickle.pop().map_err(located)?;
                return Ok((pickle, result));
            }
            pickle.step(code, &mut reader).map_err(located)?;
        }
        Err(format!("holds a pickle of more than {MOST_INSTRUCTIONS} instructions, far more than tensors need"))
    }

    /// The entries of a dictionary.
    pub fn dict(&self, value: Value<'a>) -> Option<&[(Value<'a>, Value<'a>)]> {
        match value {
            Value::Dict(index) => Some(&self.dicts[index]),
            _ => None,
        }
    }

    /// The tensor behind a value.
    pub fn tensor(&self, value: Value<'a>) -> Option<&View> {
        match value {
            Value::Tensor(index) => Some(&self.tensors[index]),
            _ => None,
        }
    }

    fn step(&mut self, code: u8, reader: &mut Reader<'a>) -> Result<(), String> {
        match code {
            // PROTO
            0x80 => match reader.byte()? {
                2 | 3 => {}
                other => {
                    return Err(format!("is written in pickle protocol {other}, and only 2 and 3 are read"));
                }
            },
            // MARK
            b'(' => self.marks.push(self.stack.len()),
            // NONE, NEWTRUE, NEWFALSE
            b'N' | 0x88 | 0x89 => self.push(Value::Plain),
            // BINFLOAT
            b'G' => {
                reader.take(8)?;
                self.push(Value::Plain);
            }
            // BININT, BININT1, BININT2
            b'J' => self.push(Value::Int(i64::from(i32::from_le_bytes(reader.array()?)))),
            b'K' => self.push(Value::Int(i64::from(reader.byte()?))),
            b'M' => self.push(Value::Int(i64::from(u16::from_le_bytes(reader.array()?)))),
            // LONG1
            0x8a => {
                let length = usize::from(reader.byte()?);
                let number = reader.take(length)?;
                self.push(Value::Int(integer(number)?));
            }
            // BINUNICODE
            b'X' => {
                let length = u32::from_le_bytes(reader.array()?) as usize;
                let text = std::str::from_utf8(reader.take(length)?);
                self.push(Value::Text(text.map_err(|_| "holds a text that is none".to_owned())?));
            }
            // EMPTY_TUPLE
            b')' => self.tuple(Vec::new()),
            // TUPLE, TUPLE1, TUPLE2, TUPLE3
            b't' => {
                let items = self.marked()?;
                self.tuple(items);
            }
            0x85..=0x87 => {
                let count = usize::from(code - 0x84);
                let from = self.above(count)?;
                let items = self.stack.split_off(from);
                self.tuple(items);
            }
            // EMPTY_LIST
            b']' => {
                self.tuples.push(Vec::new());
                self.push(Value::List(self.tuples.len() - 1));
            }
            // APPEND, APPENDS
            b'a' => {
                let item = self.pop()?;
                self.list()?.push(item);
            }
            b'e' => {
                let items = self.marked()?;
                self.list()?.extend(items);
            }
            // EMPTY_DICT
            b'}' => self.new_dict(),
            // SETITEM, SETITEMS
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.top_dict()?.push((key, value));
            }
            b'u' => {
                let items = self.marked()?;
                if items.len() % 2 != 0 {
                    return Err("gives a dictionary a key without a value".to_owned());
                }
                self.top_dict()?.extend(items.chunks_exact(2).map(|pair| (pair[0], pair[1])));
            }
            // BINPUT, LONG_BINPUT, BINGET, LONG_BINGET
            b'q' => self.remember(u32::from(reader.byte()?))?,
            b'r' => self.remember(u32::from_le_bytes(reader.array()?))?,
            b'h' => self.recall(u32::from(reader.byte()?))?,
            b'j' => self.recall(u32::from_le_bytes(reader.array()?))?,
            // GLOBAL
            b'c' => {
                let (module, name) = (reader.line()?, reader.line()?);
                let Some(global) = Global::find(module, name) else {
                    return Err(format!(
                        "asks for `{}.{}`: more than tensors is in it, and nothing in it is executed",
                        shown(module),
                        shown(name)
                    ));
                };
                self.push(Value::Global(global));
            }
            // BINPERSID, REDUCE, BUILD
            b'Q' => self.persistent()?,
            b'R' => self.reduce()?,
            b'b' => {
                // The attributes of an ordered dictionary: `_metadata`, versions of modules.
                self.pop()?;
                self.top_dict()?;
            }
            other => return Err(format!("uses the pickle instruction {other:#04x}, which no file of tensors needs")),
        }
        Ok(())
    }

    /// `("storage", type, key, location, count)`
    fn persistent(&mut self) -> Result<(), String> {
        let id = self.pop()?;
        match self.items(id) {
            Some(
                &[Value::Text("storage"), Value::Global(Global::Storage(dtype)), Value::Text(key), _, Value::Int(len)],
            ) => {
                let len = usize::try_from(len).map_err(|_| format!("announces {len} numbers"))?;
                self.storages.push(Storage { dtype, key, len });
                self.push(Value::Storage(self.storages.len() - 1));
                Ok(())
            }
            _ => Err("refers to something outside that is no storage".to_owned()),
        }
    }

    fn reduce(&mut self) -> Result<(), String> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let Value::Global(global) = function else { return Err("calls something that is no function".to_owned()) };
        let Some(arguments) = self.items(arguments) else {
            return Err("calls a function without a list of arguments".to_owned());
        };
        match (global, arguments) {
            (Global::OrderedDict, []) => self.new_dict(),
            (Global::Size, &[sizes @ Value::Tuple(_)]) => self.push(sizes),
            // The rest are flags of training.
            (Global::RebuildParameter, &[tensor @ Value::Tensor(_), ..]) => self.push(tensor),
            (Global::RebuildTensor, &[Value::Storage(storage), Value::Int(offset), shape, strides, ..]) => {
                let view = View {
                    storage,
                    offset: usize::try_from(offset).map_err(|_| format!("begins a tensor at {offset}"))?,
                    shape: self.sizes(shape)?,
                    strides: self.sizes(strides)?,
                };
                if view.shape.len() != view.strides.len() {
                    return Err(format!(
                        "gives a tensor {} sizes and {} strides",
                        view.shape.len(),
                        view.strides.len()
                    ));
                }
                self.tensors.push(view);
                self.push(Value::Tensor(self.tensors.len() - 1));
            }
            _ => return Err(format!("builds a {global:?} from unknown arguments")),
        }
        Ok(())
    }

    fn sizes(&self, value: Value<'a>) -> Result<Vec<usize>, String> {
        let items = self.items(value).ok_or("gives a tensor no sizes")?;
        if items.len() > MOST_DIMENSIONS {
            return Err(format!("gives a tensor {} dimensions", items.len()));
        }
        let size = |item: &Value<'a>| match *item {
            Value::Int(size) => usize::try_from(size).map_err(|_| format!("gives a tensor the size {size}")),
            _ => Err("gives a tensor a size that is no number".to_owned()),
        };
        items.iter().map(size).collect()
    }

    /// The items of a tuple.
    fn items(&self, value: Value<'a>) -> Option<&[Value<'a>]> {
        match value {
            Value::Tuple(index) => Some(&self.tuples[index]),
            _ => None,
        }
    }

    // ---- the machine

    fn push(&mut self, value: Value<'a>) {
        self.stack.push(value);
    }

    fn tuple(&mut self, items: Vec<Value<'a>>) {
        self.tuples.push(items);
        self.push(Value::Tuple(self.tuples.len() - 1));
    }

    fn new_dict(&mut self) {
        self.dicts.push(Vec::new());
        self.push(Value::Dict(self.dicts.len() - 1));
    }

    /// Where the topmost `count` values begin; those below a mark are out of reach.
    fn above(&self, count: usize) -> Result<usize, String> {
        let floor = self.marks.last().copied().unwrap_or(0);
        let from = self.stack.len().checked_sub(count).filter(|from| *from >= floor);
        from.ok_or_else(|| "takes more from its stack than there is".to_owned())
    }

    fn pop(&mut self) -> Result<Value<'a>, String> {
        let from = self.above(1)?;
        let value = self.stack[from];
        self.stack.truncate(from);
        Ok(value)
    }

    /// All values above the last mark, which is removed.
    fn marked(&mut self) -> Result<Vec<Value<'a>>, String> {
        let mark = self.marks.pop().ok_or("returns to a mark that was not set")?;
        Ok(self.stack.split_off(mark))
    }

    fn top(&self) -> Result<Value<'a>, String> {
        Ok(self.stack[self.above(1)?])
    }

    fn top_dict(&mut self) -> Result<&mut Vec<(Value<'a>, Value<'a>)>, String> {
        match self.top()? {
            Value::Dict(index) => Ok(&mut self.dicts[index]),
            _ => Err("treats something as a dictionary that is none".to_owned()),
        }
    }

    fn list(&mut self) -> Result<&mut Vec<Value<'a>>, String> {
        match self.top()? {
            Value::List(index) => Ok(&mut self.tuples[index]),
            _ => Err("treats something as a list that is none".to_owned()),
        }
    }

    fn remember(&mut self, index: u32) -> Result<(), String> {
        let value = self.top()?;
        self.memo.insert(index, value);
        Ok(())
    }

    fn recall(&mut self, index: u32) -> Result<(), String> {
        let value = *self.memo.get(&index).ok_or("recalls a value that it never kept")?;
        self.push(value);
        Ok(())
    }
}

/// Two's complement of any length, as long as the value fits.
fn integer(bytes: &[u8]) -> Result<i64, String> {
    let mut wide = [if bytes.last().is_some_and(|last| last & 0x80 != 0) { 0xff } else { 0 }; 8];
    match wide.get_mut(..bytes.len()) {
        Some(low) => low.copy_from_slice(bytes),
        None => return Err(format!("holds an integer of {} bytes", bytes.len())),
    }
    Ok(i64::from_le_bytes(wide))
}

struct Reader<'a> {
    program: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.program.len());
        let end = end.ok_or("holds a pickle that ends early")?;
        let bytes = &self.program[self.at..end];
        self.at = end;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn byte(&mut self) -> Result<u8, String> {
        self.array().map(|[byte]: [u8; 1]| byte)
    }

    /// Text up to the end of the line.
    fn line(&mut self) -> Result<&'a str, String> {
        let rest = &self.program[self.at..];
        let length = rest.iter().position(|&byte| byte == b'\n').ok_or("holds a pickle that ends early")?;
        let line = &self.take(length + 1)?[..length];
        std::str::from_utf8(line).map_err(|_| "asks for a name that is no text".to_owned())
    }
}
