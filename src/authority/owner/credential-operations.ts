/**
 * The endpoints of the owner's credentials for the OpenAPI document. Contract: "Authentication", "Owner API".
 */
import { z } from 'zod'
import { ENROLMENT } from './enrolment.ts'
import type { Described } from '../../http/endpoint.ts'
import { NEW_DEVICE_KEY, NEW_LOGIN } from './credentials.ts'
import { PAGE } from './requests.ts'

const text = z.string()
type Undeclared = Omit<Described, 'rows'>
const hers = { credential: { names: ['owner', 'bearer'] } } as const

const DEVICE_KEY = z.strictObject({ kid: text, name: text, enrolled_at: text })
const LOGIN = z.strictObject({ id: text, name: text, issuer: text, subject: text, bound_at: text })
const DELETED = z.strictObject({ deleted: text })

/** All of them. */
export const CREDENTIAL_OPERATIONS: readonly Undeclared[] = [
  {
    ...hers,
    method: 'post',
    path: '/owner/enrolment',
    summary:
      'Enrols a first credential by a one-time code: the key in the body, which signs the request, or the login of the access token',
    body: { schema: ENROLMENT },
    answers: {
      201: {
        says: 'Enrolled; the code is used up.',
        schema: z.union([DEVICE_KEY.extend({ owner: text }), LOGIN.extend({ owner: text })]),
      },
    },
  },
  {
    ...hers,
    method: 'get',
    path: '/owner/device-keys',
    summary: 'Her device keys, revoked ones too',
    query: PAGE,
    answers: {
      200: { says: 'By kid.', schema: z.array(DEVICE_KEY.extend({ revoked_at: text.nullable() })) },
    },
  },
  {
    ...hers,
    method: 'post',
    path: '/owner/device-keys',
    summary: 'Enrols a further device key',
    body: { schema: NEW_DEVICE_KEY },
    answers: { 201: { says: 'Enrolled.', schema: DEVICE_KEY } },
  },
  {
    ...hers,
    method: 'delete',
    path: '/owner/device-keys/{kid}',
    summary: 'Revokes a device key, at once and for ever; the last credential stays',
    answers: { 200: { says: 'Revoked.', schema: DELETED } },
  },
  {
    ...hers,
    method: 'get',
    path: '/owner/logins',
    summary: 'Her logins',
    query: PAGE,
    answers: { 200: { says: 'By id.', schema: z.array(LOGIN) } },
  },
  {
    ...hers,
    method: 'post',
    path: '/owner/logins',
    summary: 'Binds the login that an access token proves',
    body: { schema: NEW_LOGIN },
    answers: { 201: { says: 'Bound.', schema: LOGIN } },
  },
  {
    ...hers,
    method: 'delete',
    path: '/owner/logins/{id}',
    summary: 'Removes a login, at once; the last credential stays',
    answers: { 200: { says: 'Removed.', schema: DELETED } },
  },
]
