/** Owns charters for tests of rules. */
import { parseCharter, type Charter } from '../../src/wire/organization/charter.ts'

/** One that says something everywhere. */
export const CHARTER: Charter = parseCharter({
  name: 'Acme at work',
  claims: ['acme/*', 'acme/*/*'],
  roles: {
    staff: { name: 'Staff', grants: ['acme/mail-*', 'acme/files/*'], delegation: 'any-agent' },
    leads: { name: 'Leads', grants: ['acme/*'], delegation: 'first-party-only' },
    guests: { name: 'Guests', grants: ['acme/calendar'], delegation: 'none' },
  },
  default_role: 'guests',
  envelope: {
    max_expires_in: 3600,
    allowed_scopes: ['read', 'send'],
    require_prohibited: ['training models on it'],
    always_ask: ['acme/mail-out'],
    require_clearance: { screening: ['basic', 'full'] },
  },
  conditions: { min_binding: 1, min_provenance: 0, min_accountability: 1, require_reason: true },
  rules: [
    { when: ['standing.introduced'], then: 'refuse', resources: ['acme/files/*'] },
    { when: ['assurance.accountability_below:2'], then: 'ask', resources: ['acme/mail-*'] },
  ],
  break_glass: { enabled: true, resources: ['acme/files/*'], invokers: ['https://ops.example'] },
  identity_provider: { issuer: 'https://idp.example', subjects: { bea: 'sub-b' } },
})

/** That one with other members. */
export const charterWith = (changes: Partial<Charter>): Charter => ({ ...CHARTER, ...changes })
