from offarray._handle cimport Handle, fresh, make, view
