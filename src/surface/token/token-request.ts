/** The body of POST /token, form-encoded or JSON. Contract: "Token endpoint". */
import { z } from 'zod'

/** Printable text without NUL, which Postgres cannot hold. */
const text = (max: number) =>
  z
    .string()
    .max(max)
    .refine(value => !value.includes('\0'), 'must not contain NUL')

/** RFC 6749 §3.2: unknown parameters are ignored. */
export const TOKEN_REQUEST = z.object({
  grant_type: text(200),
  ticket: text(8_192).optional(),
  claim_token: z.string().optional(),
  claim_token_format: text(400).optional(),
  decline: z.union([text(10), z.boolean().transform(String)]).optional(),
  owner: text(200).optional(),
  client_id: text(2_048).optional(),
  client_secret: text(1_024).optional(),
  scope: text(1_000).optional(),
})
export type TokenRequest = z.infer<typeof TOKEN_REQUEST>
