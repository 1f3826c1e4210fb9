-- A resource that takes no approval but a signed one; and connections that an approval admitted for its own tier alone.
ALTER TABLE resources ADD COLUMN approval text CHECK (approval = 'signed');
ALTER TABLE connections ADD COLUMN admits text NOT NULL DEFAULT 'all' CHECK (admits IN ('all', 'tier'));
