UPDATE shelves SET place = 'annex' WHERE shelf = 'C';
