"""Work that outlives the page that started it: searches and resends, with progress that survives a reload."""
