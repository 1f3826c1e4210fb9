-- An identity assertion that a negotiation was opened by, where an organization asks for one before terms: who vouched for whom, its digest, and the key
-- and operator that the agreement is to be of. The assertion itself is not kept; that it was presented stands among `spent_signatures`.

ALTER TABLE families ADD COLUMN identity json;
