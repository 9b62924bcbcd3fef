//! Types and their fields, from a kernel's debug information (DWARF): which field of which type lies at an offset.
//!
//! Field paths are short on purpose. A wrapper of one value (`PerCpu`, `UnsafeCell`, an atomic) adds nothing to a path; the inside of
//! the standard library's types and of enums is not shown; array indices are left out, so that a path is the same for all elements.

use crate::rust_name::is_standard;
use gimli::{AttributeValue, DwTag, EndianSlice, LittleEndian, constants as dw};
use object::{Object, ObjectSection};
use std::collections::HashMap;

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Unit<'a> = gimli::Unit<Slice<'a>>;
type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;
type Entry<'a> = gimli::DebuggingInformationEntry<Slice<'a>>;

/// A type's place in the debug information.
pub type TypeId = usize;

#[derive(Debug)]
struct Type {
    /// With modules; empty where the type has no name.
    name: String,
    /// 0 for an array, whose size is that of its elements.
    size: u64,
    shape: Shape,
}

#[derive(Debug)]
enum Shape {
    /// A number, a pointer, an enum: no parts.
    Whole,
    /// Name, offset, type.
    Fields(Vec<(String, u64, TypeId)>),
    /// Of this type, so many.
    Elements(TypeId, u64),
}

/// The types of a program, and the types of its variables.
#[derive(Debug, Default)]
pub struct Types {
    types: HashMap<TypeId, Type>,
    by_name: HashMap<String, TypeId>,
    /// By address.
    variables: HashMap<u64, TypeId>,
    /// Functions with type parameters, by the entry that names them: `drop_slow<Dentry, Global>`.
    generic: HashMap<TypeId, String>,
    /// Where functions begin, with the entry that names them.
    functions: HashMap<u64, TypeId>,
    /// Where the compiler ran.
    folders: Vec<String>,
}

/// Nesting deeper than this is a mistake in the file.
const DEEPEST: usize = 64;

impl Types {
    /// From an ELF file; empty if it has no debug information.
    pub fn read(image: &[u8]) -> Result<Types, gimli::Error> {
        let mut types = Types::default();
        let Ok(file) = object::File::parse(image) else { return Ok(types) };
        let section = |id: gimli::SectionId| -> Result<Slice<'_>, gimli::Error> {
            let data = file.section_by_name(id.name()).and_then(|section| section.data().ok());
            Ok(EndianSlice::new(data.unwrap_or(&[]), LittleEndian))
        };
        let dwarf = gimli::Dwarf::load(section)?;
        let mut units = dwarf.units();
        while let Some(header) = units.next()? {
            let unit = dwarf.unit(header)?;
            if let Some(folder) = unit.comp_dir {
                types.folders.push(folder.to_string_lossy().into_owned());
            }
            types.read_unit(&dwarf, &unit)?;
        }
        types.folders.sort();
        types.folders.dedup();
        for (id, found) in types.types.iter().filter(|(_, found)| found.size > 0 && !found.name.is_empty()) {
            let known = types.by_name.entry(found.name.clone()).or_insert(*id);
            *known = (*known).min(*id);
        }
        Ok(types)
    }

    /// Where the compiler ran: what paths of source files begin with.
    pub fn folders(&self) -> &[String] {
        &self.folders
    }

    /// The type of the variable that begins at an address.
    pub fn of_variable(&self, address: u64) -> Option<TypeId> {
        self.variables.get(&address).copied()
    }

    /// The name with type parameters of the generic function that begins at an address.
    pub fn generic_function(&self, address: u64) -> Option<&str> {
        self.generic.get(self.functions.get(&address)?).map(String::as_str)
    }

    /// The type with this full name, written as `core::any::type_name` does.
    pub fn by_name(&self, name: &str) -> Option<TypeId> {
        self.by_name.get(name).copied()
    }

    /// As `by_name`; a name whose parameters are written otherwise leads to a type with other parameters.
    pub fn by_name_roughly(&self, name: &str) -> Option<TypeId> {
        let base = |name: &str| name.split('<').next().map(str::to_owned);
        let same =
            || self.by_name.iter().filter(|(other, _)| base(other) == base(name)).map(|(_, id)| *id).min();
        self.by_name(name).or_else(same)
    }

    pub fn name(&self, id: TypeId) -> &str {
        self.types.get(&id).map_or("", |found| found.name.as_str())
    }

    /// The offset of a field of a type, both by name.
    pub fn offset(&self, type_: &str, field: &str) -> Option<u64> {
        match &self.types.get(&self.by_name(type_)?)?.shape {
            Shape::Fields(fields) => {
                fields.iter().find(|(name, ..)| name == field).map(|(_, offset, _)| *offset)
            }
            _ => None,
        }
    }

    /// The fields that hold these bytes (bit n: byte `offset + n`) of a value of this type, without repetition; "" is the whole
    /// value.
    pub fn fields(&self, id: TypeId, offset: u64, bytes: u64) -> Vec<String> {
        let mut fields: Vec<String> = Vec::new();
        let mut left = bytes;
        while left != 0 {
            let first = u64::from(left.trailing_zeros());
            let (path, end) = self.field(id, offset + first);
            let len = end.saturating_sub(offset).clamp(first + 1, 64);
            left &= u64::MAX.checked_shl(len as u32).unwrap_or(0);
            if !fields.contains(&path) {
                fields.push(path);
            }
        }
        fields
    }

    /// The path to the field at an offset, and the offset of its end.
    fn field(&self, id: TypeId, offset: u64) -> (String, u64) {
        let (mut path, mut id, mut start) = (String::new(), id, 0);
        for _ in 0..DEEPEST {
            let Some(here) = self.types.get(&id) else { break };
            let end = (path.clone(), start + self.size(id).max(1));
            match &here.shape {
                Shape::Whole => return end,
                Shape::Elements(element, _) => {
                    let size = self.size(*element);
                    if size == 0 {
                        return end;
                    }
                    path.push_str("[]");
                    start += (offset - start) / size * size;
                    id = *element;
                }
                Shape::Fields(fields) => {
                    let real = || fields.iter().filter(|(_, _, field)| self.size(*field) > 0);
                    let count = real().count();
                    let alone = count == 1;
                    if count == 0 || !alone && is_closed(&here.name) {
                        return end;
                    }
                    let found = real().find(|(_, at, field)| {
                        (start + at..start + at + self.size(*field)).contains(&offset)
                    });
                    let Some((name, at, field)) = found else {
                        let next = real().map(|(_, at, _)| start + at).filter(|at| *at > offset).min();
                        return (join(&path, "(padding)"), next.unwrap_or(end.1).max(offset + 1));
                    };
                    if !alone {
                        path = join(&path, name);
                    }
                    start += at;
                    id = *field;
                }
            }
        }
        (path, offset + 1)
    }

    fn size(&self, id: TypeId) -> u64 {
        let mut id = id;
        let mut times = 1u64;
        for _ in 0..DEEPEST {
            match self.types.get(&id) {
                Some(Type { shape: Shape::Elements(element, count), .. }) => {
                    times = times.saturating_mul(*count);
                    id = *element;
                }
                Some(found) => return found.size.saturating_mul(times),
                None => return 0,
            }
        }
        0
    }

    fn read_unit<'a>(&mut self, dwarf: &Dwarf<'a>, unit: &Unit<'a>) -> Result<(), gimli::Error> {
        // What encloses the present entry: name for namespaces and types, and the type that takes members.
        let mut around: Vec<(isize, Option<String>, Option<TypeId>)> = Vec::new();
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            let depth = entry.depth();
            while around.last().is_some_and(|(at, ..)| *at >= depth) {
                around.pop();
            }
            let tag = entry.tag();
            let inside = around.last().and_then(|(_, _, id)| *id);
            match tag {
                dw::DW_TAG_member => self.member(dwarf, unit, entry, inside)?,
                dw::DW_TAG_subrange_type => self.count(entry, inside),
                dw::DW_TAG_variable => self.variable(dwarf, unit, entry)?,
                dw::DW_TAG_subprogram => self.function(dwarf, unit, entry)?,
                _ => {}
            }
            let Some(kind) = container(tag) else { continue };
            let name = string(dwarf, unit, entry, dw::DW_AT_name)?;
            let id = (kind != Container::Namespace).then(|| id_of(unit, entry));
            if let Some(id) = id {
                let mut path: Vec<&str> = around.iter().filter_map(|(_, name, _)| name.as_deref()).collect();
                path.extend(name.as_deref());
                let full = if name.is_some() { path.join("::") } else { String::new() };
                let found = self.make(unit, entry, tag, full);
                self.types.insert(id, found);
            }
            if entry.has_children() {
                around.push((depth, name, id));
            }
        }
        Ok(())
    }

    fn make<'a>(&self, unit: &Unit<'a>, entry: &Entry<'a>, tag: DwTag, name: String) -> Type {
        let size = number(entry, dw::DW_AT_byte_size);
        let other = reference(unit, entry, dw::DW_AT_type);
        let (size, shape) = match tag {
            dw::DW_TAG_structure_type | dw::DW_TAG_union_type => {
                (size.unwrap_or(0), Shape::Fields(Vec::new()))
            }
            // The number of elements comes with the child.
            dw::DW_TAG_array_type => (0, other.map_or(Shape::Whole, |element| Shape::Elements(element, 1))),
            dw::DW_TAG_pointer_type => (size.unwrap_or(8), Shape::Whole),
            _ => (size.unwrap_or(0), Shape::Whole),
        };
        Type { name, size, shape }
    }

    fn member<'a>(
        &mut self,
        dwarf: &Dwarf<'a>,
        unit: &Unit<'a>,
        entry: &Entry<'a>,
        inside: Option<TypeId>,
    ) -> Result<(), gimli::Error> {
        let (Some(offset), Some(field)) =
            (number(entry, dw::DW_AT_data_member_location), reference(unit, entry, dw::DW_AT_type))
        else {
            return Ok(());
        };
        let name = string(dwarf, unit, entry, dw::DW_AT_name)?.unwrap_or_default();
        if let Some(Type { shape: Shape::Fields(fields), .. }) = inside.and_then(|id| self.types.get_mut(&id))
        {
            // `__0` is how a tuple's first field is written.
            let name = name.strip_prefix("__").map_or(name.clone(), str::to_owned);
            fields.push((name, offset, field));
        }
        Ok(())
    }

    /// An array's number of elements.
    fn count(&mut self, entry: &Entry<'_>, inside: Option<TypeId>) {
        let last = number(entry, dw::DW_AT_upper_bound).map(|last| last + 1);
        let Some(count) = number(entry, dw::DW_AT_count).or(last) else { return };
        if let Some(Type { shape: Shape::Elements(_, all), .. }) =
            inside.and_then(|id| self.types.get_mut(&id))
        {
            *all = all.saturating_mul(count);
        }
    }

    fn variable<'a>(
        &mut self,
        dwarf: &Dwarf<'a>,
        unit: &Unit<'a>,
        entry: &Entry<'a>,
    ) -> Result<(), gimli::Error> {
        let Some(AttributeValue::Exprloc(place)) = entry.attr_value(dw::DW_AT_location) else {
            return Ok(());
        };
        let mut operations = place.operations(unit.encoding());
        let address = match operations.next()? {
            Some(gimli::Operation::Address { address }) => address,
            Some(gimli::Operation::AddressIndex { index }) => dwarf.address(unit, index)?,
            _ => return Ok(()),
        };
        // A part of a variable that was taken apart says more.
        if operations.next()?.is_none()
            && let Some(id) = reference(unit, entry, dw::DW_AT_type)
        {
            self.variables.insert(address, id);
        }
        Ok(())
    }
}

impl Types {
    fn function<'a>(
        &mut self,
        dwarf: &Dwarf<'a>,
        unit: &Unit<'a>,
        entry: &Entry<'a>,
    ) -> Result<(), gimli::Error> {
        if let Some(name) = string(dwarf, unit, entry, dw::DW_AT_name)?.filter(|name| name.ends_with('>')) {
            self.generic.insert(id_of(unit, entry), name);
        }
        if let Some(start) = entry.attr_value(dw::DW_AT_low_pc)
            && let Some(start) = dwarf.attr_address(unit, start)?
        {
            // What is said once for all copies of a function is said elsewhere.
            let elsewhere = reference(unit, entry, dw::DW_AT_abstract_origin).or(reference(
                unit,
                entry,
                dw::DW_AT_specification,
            ));
            self.functions.insert(start, elsewhere.unwrap_or_else(|| id_of(unit, entry)));
        }
        Ok(())
    }
}

#[derive(PartialEq, Eq)]
enum Container {
    Namespace,
    Type,
}

fn container(tag: DwTag) -> Option<Container> {
    match tag {
        dw::DW_TAG_namespace => Some(Container::Namespace),
        dw::DW_TAG_structure_type
        | dw::DW_TAG_union_type
        | dw::DW_TAG_enumeration_type
        | dw::DW_TAG_array_type
        | dw::DW_TAG_base_type
        | dw::DW_TAG_pointer_type => Some(Container::Type),
        // What is inside a function or a variant belongs to no enclosing type.
        dw::DW_TAG_subprogram | dw::DW_TAG_variant_part | dw::DW_TAG_variant => Some(Container::Namespace),
        _ => None,
    }
}

fn id_of(unit: &Unit<'_>, entry: &Entry<'_>) -> TypeId {
    unit.header.debug_info_offset().map_or(0, |start| start.0) + entry.offset().0
}

fn reference(unit: &Unit<'_>, entry: &Entry<'_>, name: gimli::DwAt) -> Option<TypeId> {
    match entry.attr_value(name)? {
        AttributeValue::UnitRef(offset) => Some(unit.header.debug_info_offset()?.0 + offset.0),
        AttributeValue::DebugInfoRef(offset) => Some(offset.0),
        _ => None,
    }
}

fn number(entry: &Entry<'_>, name: gimli::DwAt) -> Option<u64> {
    entry.attr_value(name)?.udata_value()
}

fn string<'a>(
    dwarf: &Dwarf<'a>,
    unit: &Unit<'a>,
    entry: &Entry<'a>,
    name: gimli::DwAt,
) -> Result<Option<String>, gimli::Error> {
    let Some(value) = entry.attr_value(name) else { return Ok(None) };
    Ok(Some(dwarf.attr_string(unit, value)?.to_string_lossy().into_owned()))
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// A type of the standard library whose inside tells a reader nothing; of `Arc`'s allocation it does.
fn is_closed(name: &str) -> bool {
    is_standard(name)
        && !name.starts_with("alloc::sync::ArcInner<")
        && !name.starts_with("alloc::rc::RcInner<")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    #[repr(C)]
    struct Inner {
        a: u32,
        b: AtomicU32,
    }

    /// One value only: adds nothing to a path.
    #[repr(C)]
    struct Wrapper(Inner);

    #[repr(C)]
    struct Outer {
        rows: [[Inner; 2]; 3],
        small: u8,
        wrapped: Wrapper,
        pair: (u64, u64),
        text: String,
    }

    #[used]
    static OUTER: Outer = Outer {
        rows: [const { [const { Inner { a: 1, b: AtomicU32::new(2) } }; 2] }; 3],
        small: 3,
        wrapped: Wrapper(Inner { a: 4, b: AtomicU32::new(5) }),
        pair: (6, 7),
        text: String::new(),
    };
    #[used]
    static COUNTER: AtomicU64 = AtomicU64::new(0);

    /// This program's own types, by name.
    fn types() -> Types {
        COUNTER.fetch_add(u64::from(OUTER.small + u8::from(OUTER.text.is_empty())), Ordering::Relaxed);
        Types::read(&std::fs::read(std::env::current_exe().unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn bytes_are_named_by_their_fields() {
        let types = types();
        let outer = types.by_name("darter_measure::types::tests::Outer").unwrap();
        let fields = |offset, bytes| types.fields(outer, offset, bytes);
        assert_eq!(fields(0, 0xff), ["rows[][].a", "rows[][].b"]);
        assert_eq!(
            fields(0, u64::MAX),
            ["rows[][].a", "rows[][].b", "small", "(padding)", "wrapped.a", "wrapped.b"]
        );
        assert_eq!(fields(48, 1), ["small"]);
        assert_eq!(fields(52, 0xf0), ["wrapped.b"]);
        let mut pair = fields(64, 0xffff);
        pair.sort();
        assert_eq!(pair, ["pair.0", "pair.1"]);
        assert_eq!(fields(80, 0xff_ffff), ["text"], "nothing of the standard library's inside");
        assert_eq!(types.offset("darter_measure::types::tests::Outer", "small"), Some(48));
        assert_eq!(types.offset("darter_measure::types::tests::Outer", "none"), None);
        assert_eq!(types.by_name_roughly("darter_measure::types::tests::Outer<X>"), Some(outer));
    }

    #[test]
    fn variables_have_types_by_their_address() {
        let types = types();
        let image = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let file = object::File::parse(image.as_slice()).unwrap();
        let address = |name: &str| {
            use object::ObjectSymbol;
            let found = file.symbols().find(|symbol| {
                symbol.name().is_ok_and(|found| {
                    found.contains("types") && found.contains("tests") && found.contains(name)
                })
            });
            found.unwrap().address()
        };
        let outer = types.of_variable(address("OUTER")).unwrap();
        assert_eq!(types.name(outer), "darter_measure::types::tests::Outer");
        let counter = types.of_variable(address("COUNTER")).unwrap();
        assert_eq!(types.fields(counter, 0, 0xff), [""], "an atomic is its value");
        assert_eq!(types.of_variable(1), None);
    }

    #[test]
    fn a_file_without_debug_information_has_no_types() {
        assert_eq!(Types::read(b"hello").unwrap().by_name("x"), None);
    }
}
