//! Shared libraries as the loader sees them: what they need, with which symbol versions, and what they offer.

use camino::Utf8Path;
use object::elf::{DT_NEEDED, FileHeader64};
use object::read::elf::{FileHeader as _, SectionTable};
use object::{LittleEndian, ReadCache, ReadRef};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;

/// What a 64-bit little-endian ELF library needs and offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Library {
    /// Names of the libraries that it needs.
    pub needed: Vec<String>,
    /// Symbol versions that it needs, by library (`libstdc++.so.6`: `GLIBCXX_3.4.30`).
    pub versions_needed: BTreeMap<String, BTreeSet<String>>,
    /// Symbol versions that it offers.
    pub versions_offered: BTreeSet<String>,
}

type Header = FileHeader64<LittleEndian>;

impl Library {
    /// Reads what the loader reads, and no more; `None` for what is no such library.
    pub fn read(path: &Utf8Path) -> Option<Self> {
        let cache = ReadCache::new(File::open(path).ok()?);
        Self::parse(&cache).ok()
    }

    fn parse<'data>(data: impl ReadRef<'data>) -> object::read::Result<Self> {
        let header = Header::parse(data)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, data)?;
        let mut library = Self::default();
        library.dynamic(endian, data, &sections)?;
        library.needs(endian, data, &sections)?;
        library.offers(endian, data, &sections)?;
        Ok(library)
    }

    fn dynamic<'data, R: ReadRef<'data>>(
        &mut self,
        endian: LittleEndian,
        data: R,
        sections: &SectionTable<'data, Header, R>,
    ) -> object::read::Result<()> {
        let Some((entries, link)) = sections.dynamic(endian, data)? else { return Ok(()) };
        let strings = sections.strings(endian, data, link)?;
        for entry in entries.iter().filter(|e| e.d_tag.get(endian) == DT_NEEDED) {
            let at = u32::try_from(entry.d_val.get(endian)).unwrap_or(u32::MAX);
            if let Ok(name) = strings.get(at) {
                self.needed.push(text(name));
            }
        }
        Ok(())
    }

    fn needs<'data, R: ReadRef<'data>>(
        &mut self,
        endian: LittleEndian,
        data: R,
        sections: &SectionTable<'data, Header, R>,
    ) -> object::read::Result<()> {
        let Some((mut files, link)) = sections.gnu_verneed(endian, data)? else { return Ok(()) };
        let strings = sections.strings(endian, data, link)?;
        while let Some((file, mut versions)) = files.next()? {
            let of = self.versions_needed.entry(text(file.file(endian, strings)?)).or_default();
            while let Some(version) = versions.next()? {
                of.insert(text(version.name(endian, strings)?));
            }
        }
        Ok(())
    }

    fn offers<'data, R: ReadRef<'data>>(
        &mut self,
        endian: LittleEndian,
        data: R,
        sections: &SectionTable<'data, Header, R>,
    ) -> object::read::Result<()> {
        let Some((mut definitions, link)) = sections.gnu_verdef(endian, data)? else { return Ok(()) };
        let strings = sections.strings(endian, data, link)?;
        while let Some((_, mut names)) = definitions.next()? {
            // The first name is the version's own; those behind it are the versions that it grew out of.
            if let Some(name) = names.next()? {
                self.versions_offered.insert(text(name.name(endian, strings)?));
            }
        }
        Ok(())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
