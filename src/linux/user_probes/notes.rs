//! What the notes of a program say of its probes: the section `.note.stapsdt`, as SystemTap's `sys/sdt.h` writes it.
//!
//! A program is read as untrusted input: whoever owns it may have written anything.

use std::path::{Path, PathBuf};

use object::read::elf::{ElfFile64, SectionHeader as _};
use object::{Endianness, Object as _, ObjectSection as _, ObjectSegment as _};

use crate::linux::Error;
use crate::linux::foreign_memory::read_program;

const SECTION: &str = ".note.stapsdt";

/// Where the program's addresses have been moved to since the notes were written, this section has been too.
const BASE_SECTION: &str = ".stapsdt.base";

const NAME: &[u8] = b"stapsdt";
const TYPE: u32 = 3;

/// One place of a probe. It may have several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserProbe {
    pub provider: String,
    pub name: String,
    /// Where its instruction is in the program's file.
    pub offset: u64,
    /// Where the 16 bits are in the file that say whether somebody looks; without one the probe is always there.
    pub semaphore: Option<u64>,
    /// As the compiler wrote them: `8@%rax 4@%r14d`.
    pub arguments: String,
}

/// Where a probe's argument is when a process comes by, on x86-64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgumentPlace {
    /// Of the register, among those that the kernel keeps (`struct pt_regs`), in bytes.
    pub register_offset: u16,
    /// It is not in the register but in memory, so many bytes behind what that points to.
    pub displacement: Option<i32>,
}

/// More places of probes are not looked for: each is one that every process stops at.
const PLACES_MAX: usize = 64;

/// Probes of the program that a process runs, from /proc/PID/exe: what runs, even where its file was replaced meanwhile. Those whose
/// provider and name `is_wanted`, 64 places of them at most.
pub fn read_user_probes(pid: u32, is_wanted: impl Fn(&str, &str) -> bool) -> Result<Vec<UserProbe>, Error> {
    let path = PathBuf::from(format!("/proc/{pid}/exe"));
    let program = read_program(&path).map_err(|error| Error::file("read", &path, error))?;
    parse_user_probes(&program, is_wanted).map_err(|error| invalid(&path, error))
}

fn invalid(path: &Path, error: object::read::Error) -> Error {
    Error::file("read", path, std::io::Error::new(std::io::ErrorKind::InvalidData, error))
}

fn parse_user_probes(
    program: &[u8],
    is_wanted: impl Fn(&str, &str) -> bool,
) -> Result<Vec<UserProbe>, object::read::Error> {
    let file = ElfFile64::<Endianness>::parse(program)?;
    let Some(section) = file.section_by_name(SECTION) else { return Ok(Vec::new()) };
    let endian = file.endian();
    let base = file.section_by_name(BASE_SECTION).map(|section| section.address());
    let offset_of = |address: u64| {
        file.segments().find_map(|one| {
            let behind = address.checked_sub(one.address()).filter(|behind| *behind < one.size())?;
            one.file_range().0.checked_add(behind)
        })
    };
    let mut probes = Vec::new();
    let Some(mut notes) = section.elf_section_header().notes(endian, program)? else { return Ok(probes) };
    while let Some(note) = notes.next()? {
        if note.n_type(endian) != TYPE || note.name() != NAME {
            continue;
        }
        let Some(described) = Described::parse(note.desc()).filter(|one| is_wanted(one.texts[0], one.texts[1])) else {
            continue;
        };
        let moved = base.map_or(0, |base| base.wrapping_sub(described.base));
        let Some(offset) = offset_of(described.address.wrapping_add(moved)) else { continue };
        let semaphore = match described.semaphore {
            0 => None,
            address => match offset_of(address.wrapping_add(moved)) {
                Some(semaphore) => Some(semaphore),
                // Nobody could say there that he looks, and no process would come by.
                None => continue,
            },
        };
        let [provider, name, arguments] = described.texts.map(str::to_owned);
        probes.push(UserProbe { provider, name, offset, semaphore, arguments });
        if probes.len() == PLACES_MAX {
            break;
        }
    }
    Ok(probes)
}

/// A note as it stands there: three addresses, and three texts that end with a zero.
struct Described<'a> {
    address: u64,
    base: u64,
    semaphore: u64,
    texts: [&'a str; 3],
}

impl Described<'_> {
    fn parse(note: &[u8]) -> Option<Described<'_>> {
        let (numbers, rest) = note.split_at_checked(24)?;
        let number = |at: usize| numbers[at..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let mut texts = rest.split(|byte| *byte == 0).map(|text| std::str::from_utf8(text).ok());
        let texts = [texts.next()??, texts.next()??, texts.next()??];
        Some(Described { address: number(0)?, base: number(8)?, semaphore: number(16)?, texts })
    }
}

impl UserProbe {
    /// Where the first argument is, which has to be an address. `None` where it is none, or stands where it is not looked for.
    pub fn first_argument(&self) -> Option<ArgumentPlace> {
        let place = self.arguments.split(' ').next()?.trim_start_matches('-').strip_prefix("8@")?;
        let Some((displacement, register)) = place.split_once('(') else {
            return Some(ArgumentPlace { register_offset: register_offset(place)?, displacement: None });
        };
        let register_offset = register_offset(register.strip_suffix(')')?)?;
        let displacement = if displacement.is_empty() { 0 } else { displacement.parse().ok()? };
        Some(ArgumentPlace { register_offset, displacement: Some(displacement) })
    }
}

/// In `struct pt_regs` of x86-64 (arch/x86/include/asm/ptrace.h).
fn register_offset(name: &str) -> Option<u16> {
    const NAMES: [&str; 15] = [
        "%r15", "%r14", "%r13", "%r12", "%rbp", "%rbx", "%r11", "%r10", "%r9", "%r8", "%rax", "%rcx", "%rdx", "%rsi",
        "%rdi",
    ];
    // Behind these the kernel has the system call's number, ip, cs and the flags.
    const STACK_POINTER: u16 = 19;
    let place = NAMES.iter().position(|known| *known == name).map(|place| place as u16);
    place.or((name == "%rsp").then_some(STACK_POINTER)).map(|place| 8 * place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_arguments(arguments: &str) -> UserProbe {
        let (provider, name) = ("postgresql".to_owned(), "lwlock__wait__done".to_owned());
        UserProbe { provider, name, offset: 0, semaphore: None, arguments: arguments.to_owned() }
    }

    #[test]
    fn the_first_argument_is_in_a_register_or_behind_one() {
        let place = |arguments: &str| {
            let place = with_arguments(arguments).first_argument()?;
            Some((place.register_offset, place.displacement))
        };
        assert_eq!(place("8@%rax 4@%r14d"), Some((80, None)));
        assert_eq!(place("8@-24(%rbp) -4@$0"), Some((32, Some(-24))));
        assert_eq!(place("-8@(%rsp)"), Some((152, Some(0))));
        for other in ["", "4@%eax", "8@$5", "8@x0", "8@[sp, 16]", "8@8(%rax,%rbx,8)", "8@%xmm0"] {
            assert_eq!(place(other), None, "{other}");
        }
    }

    #[test]
    fn a_note_has_three_addresses_and_three_texts() {
        let numbers: Vec<u8> = [0x1000_u64, 0x2000, 0].iter().flat_map(|number| number.to_le_bytes()).collect();
        let note = [&numbers[..], b"postgresql\0lwlock__wait__done\08@%rax\0"].concat();
        let described = Described::parse(&note).unwrap();
        assert_eq!((described.address, described.base, described.semaphore), (0x1000, 0x2000, 0));
        assert_eq!(described.texts, ["postgresql", "lwlock__wait__done", "8@%rax"]);
        for cut in [0, 23, 30] {
            assert!(Described::parse(&note[..cut]).is_none(), "{cut}");
        }
        assert!(parse_user_probes(b"no program", |_, _| true).is_err());
    }
}
